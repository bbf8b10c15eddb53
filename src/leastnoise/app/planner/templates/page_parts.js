"use strict";
// What every part of the page is built from: elements, numbers, messages.
const said = document.getElementById("said");
const LETTERS = { epsilon: "ε", delta: "δ", rho: "ρ", mu: "μ" };
const SVG = ["svg", "rect", "circle", "path"];

// An element. Names become text nodes, never markup.
function h(tag, attributes, ...children) {
  const node = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && tag !== "option") { node.value = value; node.drawnValue = node.value; }
    else if (name === "checked") node.checked = true;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
function num(x, digits = 3) {
  if (x === null || !isFinite(x)) return "–";
  if (x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e9)) return x.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en-US") : String(Number(x.toPrecision(digits)));
}
function up(x, digits = 3) {          // a half-width is never shown as less than it is
  if (!isFinite(x) || x <= 0) return num(x, digits);
  const unit = 10 ** (Math.floor(Math.log10(x)) - digits + 1);
  return num(Math.ceil(x / unit - 1e-9) * unit, digits + 1);
}
// A number as a field holds it: nothing is rounded, and small ones are written as everywhere else (1e-6).
function exact(x) { return Math.abs(x) < 1e-3 && x !== 0 ? x.toExponential().replace("e+", "e") : String(x); }
function per(x) { return x < 0.001 ? "under 0.1%" : x > 10 ? "over 1,000%" : num(100 * x, 2) + "%"; }
function counts(n) { return `${n.toLocaleString("en-US")} ${n === 1 ? "count" : "counts"}`; }
function listed(words) { return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`; }
// How a half-width changed, in words: "12% wider", "2.4 times as wide", "half as wide".
function changeText(ratio) {
  if (Math.abs(ratio - 1) < 5e-4) return "the same";
  if (ratio >= 2) return `${num(ratio, 2)} times as wide`;
  return ratio > 1 ? `${num(100 * (ratio - 1), 2)}% wider` : `${num(100 * (1 - ratio), 2)}% narrower`;
}
function say(text) {
  said.textContent = "";
  said.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { said.textContent = ""; }, 9000);
}
function numberIn(text) {
  const plain = String(text).trim().replace(/,(?=\d{3}\b)/g, "");
  return plain !== "" && isFinite(Number(plain)) ? Number(plain) : null;
}
