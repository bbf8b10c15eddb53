"use strict";
// The page is drawn from one state. Names become text nodes, never markup. In the static file nothing is sent;
// elsewhere every control is an edit of the specification, made by the server.
let state = JSON.parse(document.getElementById("state").textContent);
const isStatic = state.is_static;
const app = document.getElementById("app"), said = document.getElementById("said");
const Z = 1.959963984540054;          // half-width of a 95% interval, in standard errors
let moved = null;                     // goal under the slider, before it is an edit
let opened = new Set();               // tables whose cells are shown
let typed = null;                     // the text in the editor, if it differs
let since = Date.now();               // when the present version came
const PATIENCE = 800;                 // milliseconds for which the plan before is shown rather than an estimate

function h(tag, attributes, ...children) {
  const svg = ["svg", "rect", "circle", "path", "title"].includes(tag) && tag !== "title" || tag === "svg:title";
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag.replace("svg:", "")) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && tag !== "option") node.value = value;
    else if (name === "checked") node.checked = true;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
function num(x, digits = 3) {
  if (x === null || !isFinite(x)) return "–";
  if (x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e9)) return x.toExponential(2).replace(/\.?0+e/, "e");
  return Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en-US") : String(Number(x.toPrecision(digits)));
}
function up(x, digits = 3) {          // a half-width is never shown as less than it is
  if (!isFinite(x) || x <= 0) return num(x, digits);
  const unit = 10 ** (Math.floor(Math.log10(x)) - digits + 1);
  return num(Math.ceil(x / unit - 1e-9) * unit, digits + 1);
}
function per(x) { return x < 0.001 ? "under 0.1%" : x > 10 ? "over 1000%" : num(100 * x, 2) + "%"; }
function say(text) { said.textContent = ""; said.textContent = text; clearTimeout(say.timer); say.timer = setTimeout(() => { said.textContent = ""; }, 9000); }
function numberIn(text) {
  const plain = String(text).trim().replace(/,(?=\d{3}\b)/g, "");
  return plain !== "" && isFinite(Number(plain)) ? Number(plain) : null;
}

// ---------------------------------------------------------------- privacy
// The plan; before it is there the one before, where it is the same but for privacy; else an estimate.
function shownView() {
  if (state.view) return state.view;
  const [before, rough] = [state.previous, state.estimate];
  if (!before || !rough || state.is_same_shape) return before || rough;
  const named = rough.tables.map((table, i) => before.tables[i] && before.tables[i].name === table.name);
  // The same tables: what is asked now, beside the errors of the plan before, which tell more than simpler noise.
  if (named.every(Boolean) && named.length === before.tables.length && before.is_pure === rough.is_pure)
    return { ...before, tables: before.tables.map((table, i) => ({ ...table, ...asked(rough.tables[i]) })) };
  return Date.now() - since < PATIENCE ? before : rough;
}
function asked({ table, target, target_text, within, expected, weight }) { return { table, target, target_text, within, expected, weight }; }
function isOld() { return !state.view && Boolean(state.previous) && !state.is_same_shape && !shownView().is_estimate; }
function goal() { return moved || (state.controls && state.controls.goal) || (shownView() && shownView().goal) || { epsilon: 1, delta: 1e-6 }; }
function isPure(g) { return g.epsilon !== undefined && g.delta === undefined; }
function kindOf(g) { return g.rho !== undefined ? "rho" : g.mu !== undefined ? "mu" : g.delta === undefined ? "pure" : "epsilon"; }
function mainKey(g) { return g.rho !== undefined ? "rho" : g.mu !== undefined ? "mu" : "epsilon"; }
function scale() {                    // factor on all standard errors for the privacy that is shown
  const view = shownView();
  if (!view || isPure(goal()) !== view.is_pure) return 1;
  return view.loss / lossOf(goal());
}
function epsilonShown(g) { return isPure(g) ? g.epsilon : g.epsilon !== undefined ? g.epsilon : epsilonOf(lossOf(g), 1e-6); }
function converted(kind, g) {
  const mu = isPure(g) ? muOf(g.epsilon, 1e-6) : lossOf(g), delta = g.delta === undefined ? 1e-6 : g.delta;
  const four = x => Number(x.toPrecision(4));
  if (kind === "rho") return { rho: four(mu * mu / 2) };
  if (kind === "mu") return { mu: four(mu) };
  const epsilon = four(isPure(g) ? g.epsilon : g.epsilon !== undefined ? g.epsilon : epsilonOf(mu, delta));
  return kind === "pure" ? { epsilon } : { epsilon, delta };
}
const RANGE = { epsilon: [0.01, 20], rho: [1e-6, 20], mu: [0.003, 6] };
function sliderOf(g) { const k = mainKey(g), [a, b] = RANGE[k]; return 1000 * Math.log(Math.min(Math.max(g[k], a), b) / a) / Math.log(b / a); }
function movedTo(position) {
  const g = { ...goal() }, k = mainKey(g), [a, b] = RANGE[k];
  g[k] = Number((a * (b / a) ** (position / 1000)).toPrecision(3));
  return g;
}
function commitPrivacy(g) {
  if (isStatic) { moved = g; draw(); return; }
  edit({ edit: "privacy", numbers: g });
}
function riskPicture(right) {
  const gain = Math.ceil(100 * right - 50 - 1e-9), dots = [];
  for (let i = 0; i < 100; i++) {
    const kind = i < 50 ? "dot sure" : i < 50 + gain ? "dot gain" : "dot";
    dots.push(h("circle", { class: kind, cx: 5 + 10 * (i % 10), cy: 5 + 10 * Math.floor(i / 10), r: 3.6 }));
  }
  return h("svg", { viewBox: "0 0 100 100", role: "img", "aria-label": `of 100 guesses a coin has 50 right, this release lets at most ${50 + gain} be right` }, dots);
}
function privacySection() {
  const g = goal(), view = shownView(), key = mainKey(g), loss = lossOf(g), right = guessOf(loss, isPure(g));
  const shown = Math.min(Math.ceil(right * 1000 - 1e-6) / 10, 100);
  const letters = { epsilon: "ε", delta: "δ", rho: "ρ", mu: "μ" };
  const isFound = !isStatic && state.controls && !state.controls.goal && !moved;
  const others = isPure(g) ? `one person changes any result's chance by a factor of at most ${num(Math.exp(g.epsilon))}`
    : ["rho", "mu", "epsilon"].filter(k => k !== key).map(k => k === "epsilon" ? `ε = ${num(epsilonOf(loss, 1e-6), 4)} at δ = 1e-6` : k === "mu" ? `μ = ${num(loss, 4)}` : `ρ = ${num(loss * loss / 2, 4)}`).join(", ");
  const exact = view && !view.is_estimate && isPure(g) === view.is_pure && view.is_scalable;
  return h("section", { "aria-labelledby": "privacy-title" }, h("h2", { id: "privacy-title" }, "How much privacy"),
    h("div", { class: "columns" },
      h("div", {},
        h("p", { class: "big", id: "main-number" }, `${letters[key]} = ${num(g[key], 4)} `, h("small", {}, g.delta !== undefined ? `at δ = ${num(g.delta)}` : isPure(g) ? "pure, no δ" : "")),
        isFound && h("p", { class: "note" }, "The file gives no privacy: this is the least that meets the accuracies asked for. Move it to fix it."),
        h("label", { class: "unseen", for: "slider" }, `privacy, ${letters[key]}: more privacy to the left, more accuracy to the right`),
        h("input", { type: "range", id: "slider", min: 0, max: 1000, step: 1, value: sliderOf(g), "aria-valuetext": `${letters[key]} = ${num(g[key], 4)}`,
          oninput: event => { moved = movedTo(Number(event.target.value)); redrawLater(); },
          onchange: event => { commitPrivacy(movedTo(Number(event.target.value))); } }),
        h("div", { class: "ends" }, h("span", {}, "more privacy, more noise"), h("span", {}, "less noise, less privacy")),
        h("div", { class: "fields" },
          h("label", {}, "stated as", h("select", { id: "goal-kind", onchange: event => commitPrivacy(converted(event.target.value, goal())) },
            [["epsilon", "ε with δ"], ["pure", "ε alone (pure)"], ["rho", "ρ (zCDP)"], ["mu", "μ (Gaussian)"]]
              .filter(([k]) => !isStatic || (k === "pure") === isPure(g)).map(([k, words]) => h("option", { value: k, selected: k === kindOf(g) }, words)))),
          Object.keys(g).map(k => h("label", {}, letters[k], h("input", { type: "text", inputmode: "decimal", id: `goal-${k}`, value: String(g[k]),
            onchange: event => { const x = numberIn(event.target.value); if (x === null || x <= 0 || (k === "delta" && x >= 1)) { say(`${letters[k]} must be a positive number${k === "delta" ? " below 1" : ""}`); event.target.value = g[k]; return; } commitPrivacy({ ...g, [k]: x }); } })))),
        h("p", { class: "note", id: "equivalents" }, `The same: ${others}.`),
        view && h("p", { class: "note", id: "exactness" }, exact ? "Accuracy below follows the slider exactly: the best shape of the noise does not depend on privacy."
          : isPure(g) !== view.is_pure ? "Another kind of noise: it is designed again." : view.is_estimate ? "" : isStatic ? (moved ? "An estimate: with accuracies asked for, the best shape depends on privacy." : "With accuracies asked for, the best shape depends on privacy: if you move it, figures are an estimate.")
          : "With accuracies asked for, the best shape depends on privacy: while you move, figures are an estimate; the design follows.")),
      h("div", {},
        h("div", { class: "risk" }, riskPicture(right), h("p", { id: "risk" }, "Somebody who knows all else, and guesses from the release whether one person is in the table, is ",
          h("strong", {}, `right at most ${shown.toFixed(1)}% of the time`), "; a coin has 50%.")),
        view && view.promise && h("p", { class: "note", id: "promise" }, moved ? `The plan was made for ${view.promise}. You have moved privacy from there.` : `The promise: ${view.promise}.`),
        view && view.budget.length > 0 && h("div", { id: "budget" }, h("h3", {}, "The budget"), view.budget.map(line => h("p", {}, line))))));
}

// ---------------------------------------------------------------- accuracy
function widthOf(table, factor) { return Z * table.high * factor; }
function meter(width, target, largest) {
  const end = 100 * Math.min(1, width / largest), kind = target === null ? "fill" : width <= target * (1 + 1e-9) ? "fill met" : "fill missed";
  return h("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("rect", { class: kind, x: 0, y: 1, width: Math.max(end, 0.5), height: 8, rx: 1 }),
    target !== null && target <= largest && h("path", { class: "goal", d: `M${100 * target / largest} 0V10` }));
}
function changeOf(table, factor) {
  const kept = state.kept;
  if (!kept || !kept.view) return null;
  const same = kept.view.tables.find(one => one.name === table.name);
  if (!same) return { text: "new", kind: "" };
  const ratio = table.high * factor / same.high - 1;
  if (Math.abs(ratio) < 5e-4) return { text: "same", kind: "", width: Z * same.high };
  return { text: `${ratio > 0 ? "+" : "−"}${num(100 * Math.abs(ratio), 2)}%`, kind: ratio > 0 ? "worse" : "better", width: Z * same.high };
}
function tableRow(table, number, factor, largest, hasKept) {
  const width = widthOf(table, factor), example = table.expected || table.invented, target = table.target === null ? null : Z * table.target;
  const change = changeOf(table, factor), id = table.table, canEdit = !isStatic && id !== null;
  const isOpen = opened.has(table.name), met = target === null ? null : width <= target * (1 + 1e-9);
  const need = table.within !== null ? String(table.within) : target !== null ? num(target, 4) : "";
  const rows = [h("tr", {},
    h("th", { scope: "row" }, h("button", { class: "quiet", id: `open-${number}`, "aria-expanded": String(isOpen), onclick: () => { isOpen ? opened.delete(table.name) : opened.add(table.name); draw(); } }, `${isOpen ? "▾" : "▸"} ${table.name}`),
      h("div", { class: "sub" }, `${table.n_rows.toLocaleString("en-US")} ${table.n_rows === 1 ? "count" : "counts"}`)),
    h("td", { class: "number", "data-name": "largest ± (95%)" }, h("strong", {}, `± ${up(width)}`), table.n_rows > 1 && h("div", { class: "sub" }, `typical ± ${up(Z * table.median * factor)}`)),
    h("td", { class: "meter" }, meter(width, target, largest), h("span", { class: "unseen" }, met === null ? "nothing asked" : met ? "accuracy asked for is met" : "accuracy asked for is missed")),
    h("td", { class: "number", "data-name": "of an example value" }, per(width / example), h("div", { class: "sub" }, "of ",
      canEdit ? h("input", { type: "text", inputmode: "numeric", id: `example-${id}`, class: "small", "aria-label": `example value for ${table.name}`, value: num(example, 6).replace(/,/g, ""), size: 6,
        onchange: event => { const text = event.target.value.trim(), x = numberIn(text); if (text !== "" && (x === null || x <= 0)) { say("an example value is a positive number; empty invents one"); return; } edit({ edit: "example", table: id, expected: text === "" ? null : x }); } }) : num(example, 6),
      table.expected ? "" : " (invented)")),
    h("td", { class: "number", "data-name": "you need ±" }, canEdit ? h("input", { type: "text", id: `need-${id}`, "aria-label": `half-width needed for ${table.name}, 95%`, placeholder: "any", value: need,
      onchange: event => { const text = event.target.value.trim().replace(/^±\s*/, ""); const x = text.endsWith("%") ? text : numberIn(text); if (text !== "" && x === null) { say("type a number of counts such as 50, or a share such as 5%"); return; } edit({ edit: "need", table: id, within: text === "" ? null : x }); } }) : need === "" ? "–" : `± ${need}`,
      met !== null && h("div", { class: met ? "sub met" : "sub missed" }, met ? "✓ met" : "✗ missed")),
    hasKept && h("td", { class: "number", "data-name": "kept plan" }, change && change.width !== undefined ? `± ${up(change.width)}` : "–", change && h("div", { class: `sub ${change.kind}` }, change.text)),
    h("td", { class: "number", "data-name": "simpler noise" }, table.simple ? [`${num(table.simple[0] / table.rms, 2)}× `, h("div", { class: "sub" }, `per cell ${num(table.simple[1] / table.rms, 2)}×`)] : "–"),
    !isStatic && h("td", { class: "edits noprint", "data-name": "weight" }, canEdit && [h("input", { type: "text", id: `weight-${id}`, "aria-label": `weight of ${table.name}`, value: String(table.weight), size: 4, class: "small",
      onchange: event => { const x = numberIn(event.target.value); if (x === null || x < 0) { say("a weight is a number, zero or more"); return; } edit({ edit: "weight", table: id, weight: x }); } }), " ",
      h("button", { class: "quiet", id: `drop-${id}`, "aria-label": `drop ${table.name}`, onclick: () => edit({ edit: "drop", table: id }) }, "drop")]))];
  if (isOpen) rows.push(h("tr", { class: "cells" }, h("td", { colspan: 9 }, table.labels.length ? [
    h("ul", { class: "celllist" }, table.labels.map((label, i) => h("li", {}, h("span", {}, label), h("span", {}, `± ${up(Z * table.errors[i] * factor)}`)))),
    table.n_rows > table.labels.length && h("p", { class: "note" }, `… and ${(table.n_rows - table.labels.length).toLocaleString("en-US")} more counts, none with more than ± ${up(width)}.`)]
    : h("p", { class: "note" }, "The cells come with the design."))));
  return rows;
}
function bulkAsk(view) {
  const names = [...new Set(view.tables.flatMap(table => table.attributes))];
  const which = h("select", { id: "ask-which", "aria-label": "which tables" }, h("option", { value: "" }, "every table"), names.map(name => h("option", { value: name }, `every table with ${name}`)));
  const width = h("input", { type: "text", id: "ask-width", "aria-label": "within how many counts", placeholder: "50", size: 6 });
  const level = h("select", { id: "ask-level", "aria-label": "how often" }, h("option", { value: "0.9" }, "9 times in 10"), h("option", { value: "0.95", selected: true }, "19 times in 20"), h("option", { value: "0.99" }, "99 times in 100"));
  const set = within => {
    const tables = [...new Set(view.tables.filter(t => t.table !== null && (which.value === "" || t.attributes.includes(which.value))).map(t => t.table))];
    edit({ edit: "need-all", tables, within, level: Number(level.value) });
  };
  return h("form", { class: "ask noprint", onsubmit: event => { event.preventDefault(); const text = width.value.trim(); const x = text.endsWith("%") ? text : numberIn(text); if (x === null) { say("type within how many counts, such as 50"); width.focus(); return; } set(x); } },
    h("span", {}, "I need"), which, h("span", {}, "within ±"), width, h("span", {}, "counts,"), level, h("button", { class: "main", id: "ask-set" }, "Find the privacy it takes"),
    h("button", { type: "button", id: "ask-clear", onclick: () => set(null) }, "Ask for nothing"));
}
function needsAnswer() {
  const needs = state.needs, view = state.view;
  if (!needs) return state.job && view && view.tables.some(t => t.target !== null) ? h("p", { class: "note" }, "Finding the least privacy loss that gives every accuracy asked for …") : null;
  const g = goal(), numbers = needs.goal, now = lossOf(g), enough = now >= needs.loss * (1 - 1e-9);
  const letters = { epsilon: "ε", rho: "ρ", mu: "μ" }, key = Object.keys(numbers).find(k => k !== "delta");
  const same = g[key] === numbers[key];
  const drive = needs.drivers.filter(one => one.share !== null && one.share > 0.01).sort((a, b) => b.share - a.share);
  return h("div", { class: enough ? "answer" : "answer missed", id: "needs" },
    h("p", {}, "The least that gives every accuracy asked for: ", h("strong", { id: "least" }, `${letters[key]} = ${num(numbers[key], 4)}`), numbers.delta !== undefined ? ` at δ = ${num(numbers.delta)}. ` : ". ",
      same ? "That is what the plan has." : enough ? (moved && !view.is_scalable ? "This is more: a plan designed for it meets all of them." : "The plan has more: all of them are met.") : "The plan has less: some are missed. ",
      !same && !isStatic && h("button", { class: enough ? "" : "main", id: "use-least", onclick: () => edit({ edit: "privacy", numbers }) }, `Use ${letters[key]} = ${num(numbers[key], 4)}`)),
    drive.length > 0 && h("p", {}, `It is driven by ${drive.map(one => `${one.name} (${Math.round(100 * one.share)}%)`).join(", ")}.`),
    needs.drivers.filter(one => one.epsilon !== null && one.epsilon < needs.epsilon * 0.9995).map(one => h("p", { class: "note" }, `Twice as wide for ${one.name} would do with ε = ${num(one.epsilon, 4)}.`)),
    needs.drivers.filter(one => one.tightens_to).map(one => h("p", { class: "note" }, `${one.name} comes out better than asked: ${one.tightens_to} would cost nothing more.`)),
    !needs.is_complete && state.job && h("p", { class: "note" }, "Looking at what relaxing each would buy …"));
}
function accuracySection() {
  const view = shownView();
  if (!view) return null;
  const factor = scale(), targets = view.tables.filter(t => t.target !== null).map(t => Z * t.target);
  const largest = Math.max(...view.tables.map(t => widthOf(t, factor)), ...targets) * 1.02;
  const hasKept = !isStatic && state.kept && state.kept.view && !state.kept.is_present;
  const estimate = view.is_estimate || isOld() || (moved && !view.is_scalable);
  return h("section", { "aria-labelledby": "accuracy-title" }, h("h2", { id: "accuracy-title" }, "How accurate every table will be"),
    h("p", { class: "lede" }, "Each published count lies within ± of the true one, 19 times in 20. Click a table to see its counts.", view.is_pure && " (For Laplace noise ± is 1.96 standard errors; a release states exact intervals.)"),
    view.is_estimate && h("p", { class: "care", id: "estimate" }, "An estimate, from simpler noise: the design that is being made is usually better."),
    isOld() && h("p", { class: "note", id: "old" }, "An estimate: the errors of the plan before your last change, while the new one is designed."),
    !isStatic && bulkAsk(view), needsAnswer(),
    state.refusal && h("p", { class: "note", id: "refusal" }, "This privacy cannot give every accuracy asked for. Below is the best it can do on the whole, whatever was asked."),
    h("div", { class: estimate ? "scroll estimate" : "scroll" }, h("table", { class: "plans" }, h("caption", {}, "accuracy of every table"),
      h("thead", {}, h("tr", {}, [["table", ""], ["largest ± (95%)", "number"], ["beside the others", ""], ["of an example value", "number"], ["you need ±", "number"], hasKept && [`kept: ${state.kept.label}`, "number"], ["simpler noise has", "number"], !isStatic && ["weight", "edits noprint"]]
        .filter(Boolean).map(([words, kind]) => h("th", { scope: "col", class: kind }, words)))),
      h("tbody", {}, view.tables.map((table, i) => tableRow(table, i, factor, largest, hasKept))))),
    hasKept && priceLine(view),
    view.proof && h("p", { id: "proof" }, h("strong", {}, view.proof), ` “Simpler noise has” is how many times the error would be with the same noise on each count, or on each cell.`));
}
function priceLine(view) {
  const before = state.kept.view, mean = v => Math.sqrt(v.tables.reduce((sum, t) => sum + t.n_rows * t.rms ** 2, 0) / v.tables.reduce((sum, t) => sum + t.n_rows, 0));
  const factor = scale(), names = new Set(before.tables.map(t => t.name)), both = view.tables.filter(t => names.has(t.name));
  if (!both.length) return null;
  const common = new Set(both.map(t => t.name));
  const ratio = mean({ tables: both }) * factor / mean({ tables: before.tables.filter(t => common.has(t.name)) }) - 1;
  const words = Math.abs(ratio) < 5e-4 ? "leaves the tables that both have as they are" : ratio > 0 ? `makes the tables that both have ${num(100 * ratio, 2)}% less accurate` : `makes the tables that both have ${num(-100 * ratio, 2)}% more accurate`;
  return h("p", { id: "price" }, `Beside the kept plan, this one ${words}, at ε = ${num(epsilonShown(goal()), 4)} (kept: ${num(epsilonShown(before.goal), 4)}).`);
}

// ---------------------------------------------------------------- what if, the file
function whatIf() {
  const c = state.controls;
  if (isStatic || !c) return null;
  const cross = h("fieldset", { class: "checks" }, h("legend", { class: "unseen" }, "attributes of the new table"), c.attributes.map(a => h("label", {}, h("input", { type: "checkbox", name: "cross", value: a.name }), a.name)));
  const coarse = c.attributes.filter(a => a.coarser.length);
  const which = h("select", { id: "coarsen-which", "aria-label": "attribute", onchange: () => fill() }, coarse.map(a => h("option", { value: a.name }, a.name)));
  const by = h("select", { id: "coarsen-by", "aria-label": "values put together" });
  const fill = () => { const a = coarse.find(one => one.name === which.value); by.replaceChildren(...(a ? a.coarser : []).map(k => h("option", { value: k }, a.kind === "periods" ? "longer periods" : `${k} values in one`))); };
  fill();
  const first = h("input", { type: "text", class: "wide", id: "month-first", "aria-label": "first month", value: "2026-01" }), last = h("input", { type: "text", class: "wide", id: "month-last", "aria-label": "last month", value: "2026-12" });
  return h("section", { class: "noprint", "aria-labelledby": "what-if-title" }, h("h2", { id: "what-if-title" }, "What if …"),
    h("p", { class: "note" }, "Each change is designed again and shown beside the plan that is kept. Undo takes it back."),
    h("div", { class: "cards" },
      h("div", { class: "card" }, h("h3", {}, "… there were one more table?"), cross, h("button", { id: "add-table", onclick: () => edit({ edit: "add", attributes: [...cross.querySelectorAll("input:checked")].map(one => one.value) }) }, "Add it")),
      coarse.length > 0 && h("div", { class: "card" }, h("h3", {}, "… an attribute were coarser?"), h("div", { class: "fields" }, which, by), h("button", { id: "coarsen", onclick: () => edit({ edit: "coarsen", attribute: which.value, by: Number(by.value) }) }, "Make it coarser")),
      h("div", { class: "card" }, h("h3", {}, "… others were protected?"), h("div", { class: "fields" },
        h("label", {}, "neighbouring tables differ by", h("select", { id: "neighbours", onchange: event => edit({ edit: "people", neighbours: event.target.value }) }, [["add-remove", "one record more or less"], ["replace-one", "one record replaced"]].map(([k, words]) => h("option", { value: k, selected: k === c.neighbours }, words)))),
        h("label", {}, "records per person", h("input", { type: "text", inputmode: "numeric", id: "records", value: String(c.records_per_person), onchange: event => { const x = numberIn(event.target.value); if (x === null || x < 1 || x % 1) { say("records per person is a whole number, 1 or more"); return; } edit({ edit: "people", records_per_person: x }); } })))),
      h("div", { class: "card" }, h("h3", {}, "… it were published as time goes on?"),
        c.over ? [h("p", {}, `Each period of ${c.over} is published when it ends, paid for once.`), h("button", { id: "all-at-once", onclick: () => edit({ edit: "all-at-once" }) }, "Publish all at once")]
          : c.periods.length ? h("button", { id: "monthly", onclick: () => edit({ edit: "monthly", attribute: c.periods[0] }) }, `Publish by ${c.periods[0]}`)
          : [h("div", { class: "fields" }, first, "to", last), h("button", { id: "monthly", onclick: () => edit({ edit: "monthly", first: first.value, last: last.value }) }, "Publish every table by month")])));
}
function faultBox() {
  const fault = state.fault;
  if (!fault) return null;
  const lines = state.text.split("\n"), at = fault.line, near = at === null ? [] : lines.slice(Math.max(0, at - 3), at + 2);
  return h("div", { class: "fault", id: "fault", role: "alert" }, h("p", {}, `The specification has an error${at === null ? "" : ` in line ${at}`}: ${fault.message}`),
    near.length > 0 && h("pre", {}, near.map((line, i) => { const n = Math.max(0, at - 3) + i + 1, shown = `${String(n).padStart(4)}  ${line}\n`; return n === at ? h("mark", {}, shown) : shown; })));
}
function fileSection() {
  if (isStatic) return h("section", { class: "noprint" }, h("h2", {}, "The specification"), h("details", {}, h("summary", {}, state.name), h("pre", {}, state.text)));
  const box = h("textarea", { id: "text", spellcheck: "false", "aria-label": `text of ${state.name}`, value: typed === null ? state.text : typed, oninput: event => { typed = event.target.value; } });
  return h("section", { class: "noprint", "aria-labelledby": "file-title" }, h("h2", { id: "file-title" }, "The specification"),
    h("p", { class: "note" }, `Every control above edits this text, and its comments stay. ${state.name} itself changes only when you save.`), box,
    h("div", { class: "tools" }, h("button", { id: "apply", onclick: () => { const text = box.value; typed = null; edit({ edit: "text", text }); } }, "Apply the text")));
}

// ---------------------------------------------------------------- the head
function head() {
  const view = state.view, job = state.job, parts = [];
  if (state.fault) parts.push(h("span", { class: "pill wrong" }, "the specification has an error"));
  else if (job && !isStatic) parts.push(h("span", { class: "pill busy", id: "job" }, `${job.stage}${job.step ? `, step ${job.step}` : ""}${job.gap !== null ? `, gap ${num(job.gap, 2)}` : ""} …`), h("button", { id: "cancel", onclick: () => act("cancel") }, "Cancel"));
  else if (state.error) parts.push(h("span", { class: "pill wrong" }, "no plan"));
  else if (view) parts.push(h("span", { class: view.misses_targets ? "pill wrong" : "pill", id: "ready" }, view.misses_targets ? "an accuracy is missed" : view.status === "optimal" ? "designed, proved optimal" : "designed"));
  if (isStatic) parts.push(h("span", {}, "A page to read: privacy can be moved, the rest is as it was planned."));
  else parts.push(h("span", { id: "saved" }, state.is_saved ? `as in ${state.name}` : `not saved to ${state.name} yet`));
  return [h("header", {}, h("h1", {}, `Plan for ${state.name}`), h("div", { class: "state" }, parts)),
    h("div", { class: "tools" }, !isStatic && [
      h("button", { id: "undo", disabled: state.undo === null, title: state.undo && `undo: ${state.undo}`, onclick: () => act("undo") }, "Undo"),
      h("button", { id: "redo", disabled: state.redo === null, onclick: () => act("redo") }, "Redo"),
      h("button", { id: "keep", disabled: state.kept.is_present || !view, onclick: () => act("keep") }, "Keep this plan beside"),
      h("button", { id: "save", class: state.is_saved ? "" : "main", disabled: state.is_saved || Boolean(state.fault), onclick: () => act("save") }, `Save to ${state.name}`),
      h("button", { id: "get-text", onclick: () => download("text", state.name) }, "Download the TOML"),
      h("button", { id: "get-plan", disabled: !state.has_plan, onclick: () => download("plan", state.name.replace(/\.toml$/, "") + ".plan") }, "Download the plan")],
      isStatic && moved && h("button", { id: "back", onclick: () => { moved = null; draw(); } }, "Back to the plan's own privacy"),
      h("button", { id: "print", onclick: () => window.print() }, "Print")),
    state.is_changed_on_disk && h("div", { class: "fault", id: "changed", role: "alert" }, h("p", {}, `${state.name} was changed by another program. It will not be overwritten. `, h("button", { id: "reload", onclick: () => act("reload") }, "Read it again"))),
    faultBox(),
    state.error && h("div", { class: "fault", id: "error", role: "alert" }, h("p", {}, state.error), !isStatic && h("button", { id: "again", onclick: () => act("again") }, "Design again"))];
}
let waiting = false;
function redrawLater() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } }
function draw() {
  const active = document.activeElement, id = active && active.id, isText = active && active.tagName === "INPUT" && active.type === "text";
  const held = isText ? [active.value, active.selectionStart, active.selectionEnd] : null, asked = ["ask-which", "ask-width", "ask-level"].map(name => document.getElementById(name)).map(node => node && node.value);
  const area = document.getElementById("text"), place = area ? [area.scrollTop, area.selectionStart, area.selectionEnd] : null;
  const slider = id === "slider" ? active : null, top = window.scrollY;
  if (slider && moved) { update(); return; }
  app.replaceChildren(...[head(), privacySection(), accuracySection(), whatIf(), fileSection()].flat(9).filter(Boolean));
  ["ask-which", "ask-width", "ask-level"].forEach((name, i) => { const node = document.getElementById(name); if (node && asked[i] !== null && asked[i] !== undefined) node.value = asked[i]; });
  const again = id && document.getElementById(id);
  if (again) { again.focus({ preventScroll: true }); if (held && again.type === "text") { if (again.value !== held[0] && again.dataset.dirty !== undefined) again.value = held[0]; try { again.setSelectionRange(held[1], held[2]); } catch { /* not a text any more */ } } }
  const now = document.getElementById("text");
  if (now && place) { now.scrollTop = place[0]; if (id === "text") now.setSelectionRange(place[1], place[2]); }
  window.scrollTo(0, top);
}
// While the slider is held its own element must stay: all else is drawn around it.
function update() {
  const fresh = privacySection(), old = document.getElementById("slider").closest("section");
  for (const name of ["main-number", "equivalents", "exactness"]) { const a = document.getElementById(name), b = fresh.querySelector(`#${name}`); if (a && b) a.replaceWith(b); }
  old.querySelector(".risk").replaceWith(fresh.querySelector(".risk"));
  for (const box of fresh.querySelectorAll(".fields input")) { const own = document.getElementById(box.id); if (own) own.value = box.value; }
  const accuracy = document.querySelector("section[aria-labelledby=accuracy-title]");
  if (accuracy) accuracy.replaceWith(accuracySection());
}

// ---------------------------------------------------------------- the server
async function send(what, body) {
  const answer = await fetch(what, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ version: state.version, ...body }) });
  return [answer.status, await answer.json()];
}
async function act(what, body) {
  try {
    const [status, found] = await send(what, body || {});
    if (status === 200) { if (found.version !== state.version) since = Date.now(); state = { ...found, is_static: false }; moved = null; if (what !== "cancel") typed = null; }
    else { say(found.message); moved = null; if (found.state) { state = { ...found.state, is_static: false }; typed = null; } }
    draw();
  } catch { say("The planner does not answer: its command was stopped. What you did not save is lost."); }
}
function edit(change) { return act("edit", { change }); }
async function download(what, name) {
  const answer = await fetch(what);
  if (!answer.ok) { say("It is not there yet."); return; }
  const link = h("a", { href: URL.createObjectURL(await answer.blob()), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
async function poll() {
  try {
    const answer = await fetch(`state?seen=${state.stamp}`), found = await answer.json();
    if (found.version !== undefined && !moved) {
      if (found.version !== state.version) { typed = null; moved = null; since = Date.now(); }
      state = { ...found, is_static: false };
      draw();
    }
  } catch { /* said when somebody acts */ }
  setTimeout(poll, state.job ? 150 : 1000);
}
draw();
document.body.dataset.ready = "true";
if (!isStatic) poll();
