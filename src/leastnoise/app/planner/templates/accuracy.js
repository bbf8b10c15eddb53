// How accurate every table will be, the accuracy asked for, and the price of a change.
const Z = 1.959963984540054;          // half-width of a 95% interval, in standard errors
const PATIENCE = 800;                 // milliseconds for which the plan before is shown rather than an estimate
const MET = 1 + 1e-9;                 // what doubles lose
let opened = new Set();               // tables whose cells are shown
let since = Date.now();               // when the present version came
let lastChange = null;                // what was done last, and the plan before it

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
// Whether what is shown is no plan for what is asked: whether that is met is not known then.
function isOpenQuestion() { const view = shownView(); return view.is_estimate || isOld() || (moved && !isStatic && !view.is_scalable); }
function isRough() { const view = shownView(); return isOpenQuestion() || (moved && !view.is_scalable); }
function widthOf(table, factor) { return Z * table.high * factor; }
function isMet(table, factor) { return table.target === null ? null : table.high * factor <= table.target * MET; }
function metText(table, factor) {
  const met = isMet(table, factor);
  if (met === null) return null;
  if (isOpenQuestion()) return { text: "…", kind: "", aloud: "being designed" };
  const likely = isRough() ? "likely " : "";
  return met ? { text: `✓ ${likely}met`, kind: "met", aloud: "accuracy asked for is met" } : { text: `✗ ${likely}missed`, kind: "missed", aloud: "accuracy asked for is missed" };
}
function meter(width, target, largest, kind) {
  const end = 100 * Math.min(1, width / largest);
  return h("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("rect", { class: `fill ${kind}`, x: 0, y: 1, width: Math.max(end, 0.5), height: 8, rx: 1 }),
    target !== null && target <= largest && h("path", { class: "goal", d: `M${100 * target / largest} 0V10` }));
}

// ---------------------------------------------------------------- one table
function exampleCell(table, width, canEdit) {
  const id = table.table, example = table.expected || table.invented;
  const change = field => {
    const text = field.value.trim(), x = numberIn(text);
    if (text !== "" && (x === null || x <= 0)) { say("an example value is a positive number; empty invents one"); return; }
    edit({ edit: "example", table: id, expected: text === "" ? null : x });
  };
  return h("td", { class: "number", "data-name": "of an example value" }, per(width / example), h("div", { class: "sub" }, table.is_running ? "of the first, " : "of ",
    canEdit ? h("input", { type: "text", inputmode: "numeric", id: `example-${id}`, class: "small", "aria-label": `example value for ${table.name}${table.is_running ? ", the first running total" : ""}`,
      value: num(example, 6).replace(/,/g, ""), size: 6, onchange: event => change(event.target) }) : num(example, 6),
    table.expected ? "" : " (invented)"));
}
function needCell(table, canEdit, met) {
  const id = table.table, need = table.within !== null ? String(table.within) : table.target !== null ? num(Z * table.target, 4) : "";
  const change = field => {
    const text = field.value.trim().replace(/^±\s*/, ""), x = text.endsWith("%") ? text : numberIn(text);
    if (text !== "" && x === null) { say("type a number of counts such as 50, or a share such as 5%"); return; }
    edit({ edit: "need", table: id, within: text === "" ? null : x });
  };
  return h("td", { class: "number", "data-name": "you need ±" },
    canEdit ? h("input", { type: "text", id: `need-${id}`, "aria-label": `half-width needed for ${table.name}, 95%`, placeholder: "any", value: need, onchange: event => change(event.target) })
      : need === "" ? "–" : `± ${need}`,
    met && h("div", { class: `sub ${met.kind}` }, met.text));
}
function keptCell(table, factor) {
  const same = state.kept.view.tables.find(one => one.name === table.name);
  if (!same) return h("td", { class: "number", "data-name": "kept plan" }, "–", h("div", { class: "sub" }, "new"));
  const ratio = table.high * factor / same.high, kind = Math.abs(ratio - 1) < 5e-4 ? "" : ratio > 1 ? "worse" : "better";
  const lost = same.n_rows === table.n_rows ? "" : `, of ${counts(same.n_rows)}`;
  return h("td", { class: "number", "data-name": "kept plan" }, `± ${up(Z * same.high)}${lost}`, h("div", { class: `sub ${kind}` }, isOpenQuestion() ? "…" : changeText(ratio)));
}
function plainCell(table) {
  if (!table.simple) return h("td", { class: "number", "data-name": "with plain noise" }, "–");
  const [onCounts, onCells] = table.simple.map(one => one / table.rms);
  return h("td", { class: "number", "data-name": "with plain noise" }, `${num(onCounts, 2)} times`, h("div", { class: "sub" }, `on cells ${num(onCells, 2)} times`));
}
function weightCell(table, canEdit) {
  const id = table.table;
  const change = field => {
    const x = numberIn(field.value);
    if (x === null || x < 0) { say("a weight is a number, zero or more"); return; }
    edit({ edit: "weight", table: id, weight: x }, `gave ${table.name} the weight ${x}`);
  };
  return h("td", { class: "edits noprint", "data-name": "weight" }, canEdit && [
    h("input", { type: "text", id: `weight-${id}`, "aria-label": `weight of ${table.name}`, value: String(table.weight), size: 4, class: "small", onchange: event => change(event.target) }), " ",
    h("button", { class: "quiet", id: `drop-${id}`, "aria-label": `drop ${table.name}`, onclick: () => edit({ edit: "drop", table: id }, `dropped ${table.name}`) }, "drop")]);
}
function tableRow(table, number, factor, largest, hasKept) {
  const width = widthOf(table, factor), target = table.target === null ? null : Z * table.target, canEdit = !isStatic && table.table !== null;
  const isOpen = opened.has(table.name), met = metText(table, factor);
  const toggle = () => { isOpen ? opened.delete(table.name) : opened.add(table.name); draw(); };
  const rows = [h("tr", {},
    h("th", { scope: "row" }, h("button", { class: "quiet", id: `open-${number}`, "aria-expanded": String(isOpen), onclick: toggle }, `${isOpen ? "▾" : "▸"} ${table.name}`),
      h("div", { class: "sub" }, counts(table.n_rows))),
    h("td", { class: "number", "data-name": "largest ± (95%)" }, h("strong", {}, `± ${up(width)}`), table.n_rows > 1 && h("div", { class: "sub" }, `typical ± ${up(Z * table.median * factor)}`)),
    h("td", { class: "meter" }, meter(width, target, largest, met ? met.kind : ""), h("span", { class: "unseen" }, met ? met.aloud : "nothing asked")),
    exampleCell(table, width, canEdit), needCell(table, canEdit, met),
    hasKept && keptCell(table, factor), plainCell(table), !isStatic && weightCell(table, canEdit))];
  if (isOpen) rows.push(h("tr", { class: "cells" }, h("td", { colspan: 9 }, table.labels.length ? [
    h("ul", { class: "celllist" }, table.labels.map((label, i) => h("li", {}, h("span", {}, label), h("span", {}, `± ${up(Z * table.errors[i] * factor)}`)))),
    table.n_rows > table.labels.length && h("p", { class: "note" }, `… and ${(table.n_rows - table.labels.length).toLocaleString("en-US")} more counts, none with more than ± ${up(width)}.`)]
    : h("p", { class: "note" }, "The cells come with the design."))));
  return rows;
}
// A table that the kept plan has and this one has not.
function droppedRow(table) {
  return h("tr", { class: "dropped" }, h("th", { scope: "row" }, h("s", {}, table.name), h("div", { class: "sub" }, `${counts(table.n_rows)}, dropped`)),
    ["number", "meter", "number", "number"].map(kind => h("td", { class: kind })), h("td", { class: "number", "data-name": "kept plan" }, `± ${up(Z * table.high)}`), h("td", {}), !isStatic && h("td", { class: "noprint" }));
}

// ---------------------------------------------------------------- the accuracy asked for
function bulkAsk(view) {
  const names = [...new Set(view.tables.flatMap(table => table.attributes))];
  const which = h("select", { id: "ask-which", "aria-label": "which tables" }, h("option", { value: "" }, "every table"), names.map(name => h("option", { value: name }, `every table with ${name}`)));
  const width = h("input", { type: "text", id: "ask-width", "aria-label": "within how many counts", placeholder: "50", size: 6 });
  const level = h("select", { id: "ask-level", "aria-label": "how often" }, h("option", { value: "0.9" }, "9 times in 10"), h("option", { value: "0.95", selected: true }, "19 times in 20"), h("option", { value: "0.99" }, "99 times in 100"));
  const set = within => {
    const tables = [...new Set(view.tables.filter(t => t.table !== null && (which.value === "" || t.attributes.includes(which.value))).map(t => t.table))];
    edit({ edit: "need-all", tables, within, level: Number(level.value) });
  };
  const submit = event => {
    event.preventDefault();
    const text = width.value.trim(), x = text.endsWith("%") ? text : numberIn(text);
    if (x === null) { say("type within how many counts, such as 50"); width.focus(); return; }
    set(x);
  };
  return h("form", { class: "ask noprint", onsubmit: submit },
    h("span", {}, "I need"), which, h("span", {}, "within"), width, h("span", {}, "counts,"), level, h("button", { class: "main", id: "ask-set" }, "Find the privacy it takes"),
    h("button", { type: "button", id: "ask-clear", onclick: () => set(null) }, "Clear what I asked"));
}
function useButton(id, numbers, isMain) {
  return h("button", { class: isMain ? "main" : "", id, onclick: () => edit({ edit: "privacy", numbers }) }, `Use ${goalText(numbers)}`);
}
// Tables of which nothing was asked, and what the least leaves them.
function unaskedText(needs) {
  if (!needs.unasked.length) return null;
  const names = listed(needs.unasked.map(one => one.name)), it = needs.unasked.length === 1 ? "it" : "they";
  if (needs.unasked[0].high === null)
    return h("p", { class: "note", id: "unasked" }, state.job ? `Nothing was asked of ${names}: looking at what the least leaves ${it === "it" ? "it" : "them"} …` : `Nothing was asked of ${names}: at the least ${it} may come out with far more noise than now.`);
  const widths = key => it === "it" ? `± ${up(Z * needs.unasked[0][key])}` : listed(needs.unasked.map(one => `± ${up(Z * one[key])} for ${one.name}`));
  return h("p", { id: "unasked" }, `But nothing was asked of ${names}: the least leaves ${it === "it" ? "it at " : ""}${widths("high")}. A little more, `, h("strong", {}, goalText(needs.higher)), `, makes that ${widths("higher")}.`);
}
function needsAnswer() {
  const needs = state.needs, view = shownView(), hasAsked = view && view.tables.some(t => t.target !== null);
  if (!needs) return state.job && hasAsked ? h("p", { class: "note" }, "Finding the least privacy loss that gives every accuracy asked for …") : null;
  const g = goal(), key = mainKey(needs.goal), at = needs.goal.delta !== undefined ? ` ${deltaText(needs.goal)}` : "";
  if (needs.is_estimate) return h("div", { class: "answer estimate", id: "needs" },
    h("p", {}, "The least that gives every accuracy asked for, estimated: about ", h("strong", { id: "least" }, goalText(needs.goal)), `${at}. `, state.job ? "Finding it exactly …" : ""));
  const isEnough = lossOf(g) >= needs.loss * (1 - 1e-9), isSame = g[key] === needs.goal[key], isHigher = needs.higher !== null && g[key] === needs.higher[key];
  const drive = needs.drivers.filter(one => one.share !== null && one.share > 0.01).sort((a, b) => b.share - a.share);
  const place = isSame ? "That is what the plan has." : !isEnough ? "The plan has less: some are missed." : moved && !view.is_scalable ? "This is more: a plan designed for it meets all of them." : "The plan has more: all of them are met.";
  return h("div", { class: isEnough ? "answer" : "answer missed", id: "needs" },
    h("p", {}, "The least that gives every accuracy asked for: ", h("strong", { id: "least" }, goalText(needs.goal)), `${at}. ${place}`),
    unaskedText(needs),
    !isStatic && h("div", { class: "tools" }, !isSame && useButton("use-least", needs.goal, !isEnough && needs.higher === null), needs.higher !== null && !isHigher && useButton("use-higher", needs.higher, !isEnough || isSame)),
    drive.length > 0 && h("p", {}, `It is driven by ${drive.map(one => `${one.name} (${Math.round(100 * one.share)}%)`).join(", ")}.`),
    needs.drivers.filter(one => one.epsilon !== null && one.epsilon < needs.epsilon * 0.9995).map(one => h("p", { class: "note" }, `Twice as wide for ${one.name} would do with ε = ${num(one.epsilon, 4)}.`)),
    needs.drivers.filter(one => one.tightens_to).map(one => h("p", { class: "note" }, `${one.name} comes out better than asked: ${one.tightens_to} would cost nothing more.`)),
    !needs.is_complete && state.job && h("p", { class: "note" }, "Looking at what relaxing each would buy …"));
}

// ---------------------------------------------------------------- the price of a change
// What became of the tables of one plan in another: sentences.
function comparison(before, view, factor) {
  const texts = [], of = name => before.tables.find(one => one.name === name);
  const both = view.tables.filter(one => of(one.name)).map(one => ({ name: one.name, ratio: one.high * factor / of(one.name).high, now: one.n_rows, then: of(one.name).n_rows })).sort((a, b) => a.ratio - b.ratio);
  const names = new Set(view.tables.map(one => one.name)), gone = before.tables.filter(one => !names.has(one.name));
  const fresh = view.tables.filter(one => !of(one.name)), first = both[0], last = both[both.length - 1];
  if (fresh.length) texts.push(`New: ${listed(fresh.map(one => `${one.name}, ${counts(one.n_rows)} within ± ${up(widthOf(one, factor))}`))}.`);
  if (gone.length) texts.push(`Lost: ${listed(gone.map(one => `${one.name}, ${counts(one.n_rows)}`))}.`);
  for (const one of both) if (one.now !== one.then) texts.push(`${one.name} has ${counts(one.now)} instead of ${one.then.toLocaleString("en-US")}.`);
  if (!both.length) return texts.join(" ");
  const [low, high] = [changeText(first.ratio), changeText(last.ratio)];
  if (low === high) texts.push(low === "the same" ? "± of every table that both have is the same." : `± is ${low} for ${both.length === 1 ? first.name : "every table that both have"}.`);
  else texts.push(`± is from ${low} (${first.name}) to ${high} (${last.name}).`);
  return texts.join(" ");
}
function priceLine(view) {
  const before = state.kept.view, [now, then] = [goalText(goal()), goalText(before.goal)];
  const privacy = now === then ? `at the same privacy, ${now}` : `at ${now} instead of ${then}`;
  return h("p", { id: "price", class: isRough() ? "estimate" : "" }, h("strong", {}, "Beside the kept plan, "), `${privacy}: `, isOpenQuestion() ? "…" : comparison(before, view, scale()));
}
function changeLine(view) {
  if (!lastChange || isStatic) return null;
  const text = !lastChange.before ? "" : isOpenQuestion() ? "its price is being worked out …" : comparison(lastChange.before, view, scale());
  return h("p", { class: "change", id: "change", role: "status" }, h("strong", {}, `You ${lastChange.words}. `), text, " ", h("button", { class: "quiet", id: "take-back", onclick: () => act("undo") }, "Take it back"));
}
function proofLine(view) {
  if (!view.proof) return null;
  const isLess = view.tables.some(t => t.simple && Math.min(...t.simple) < 0.995 * t.rms);
  return h("div", { id: "proof", class: isRough() ? "estimate" : "" }, h("p", {}, h("strong", {}, isOpenQuestion() ? "The proof comes with the new plan." : view.proof)),
    h("p", { class: "note" }, "“With plain noise”: how many times as wide ± would be, for the same privacy, with the same noise on every published count; or on every cell, of which counts are then summed up.",
      isLess && " Less than once: for that table alone plain noise would be more exact, and the other tables would pay for it."));
}
function accuracySection() {
  const view = shownView();
  if (!view) return null;
  const factor = scale(), targets = view.tables.filter(t => t.target !== null).map(t => Z * t.target);
  const largest = Math.max(...view.tables.map(t => widthOf(t, factor)), ...targets) * 1.02;
  const hasKept = Boolean(!isStatic && state.kept && state.kept.view && !state.kept.is_present);
  const names = new Set(view.tables.map(t => t.name)), gone = hasKept ? state.kept.view.tables.filter(t => !names.has(t.name)) : [];
  const columns = [["table", ""], ["largest ± (95%)", "number"], ["beside the others", "meter"], ["of an example value", "number"], ["you need ±", "number"],
    hasKept && [`kept: ${state.kept.label}`, "number"], ["with plain noise", "number"], !isStatic && ["weight", "edits noprint"]];
  return h("section", { "aria-labelledby": "accuracy-title" }, h("h2", { id: "accuracy-title" }, "How accurate every table will be"),
    h("p", { class: "lede" }, "Each published count lies within ± of the true one, 19 times in 20. ", h("span", { class: "noprint" }, "Click a table to see its counts."), view.is_pure && " (For Laplace noise ± is 1.96 standard errors; a release states exact intervals.)"),
    view.is_estimate && h("p", { class: "care", id: "estimate" }, view.source === "simpler noise" ? "An estimate, from simpler noise: the design that is being made is usually better." : `An estimate, from ${view.source}: the design itself takes longer.`),
    isOld() && h("p", { class: "note", id: "old" }, "An estimate: the errors of the plan before your last change, while the new one is designed."),
    !isStatic && bulkAsk(view), needsAnswer(), changeLine(view),
    state.refusal && h("p", { class: "note", id: "refusal" }, "This privacy cannot give every accuracy asked for. Below is the best it can do on the whole, whatever was asked."),
    h("div", { class: isRough() ? "scroll estimate" : "scroll" }, h("table", { class: "plans" }, h("caption", { class: "unseen" }, "accuracy of every table"),
      h("thead", {}, h("tr", {}, columns.filter(Boolean).map(([words, kind]) => h("th", { scope: "col", class: kind }, words)))),
      h("tbody", {}, view.tables.map((table, i) => tableRow(table, i, factor, largest, hasKept)), gone.map(droppedRow)))),
    hasKept && priceLine(view), proofLine(view));
}
