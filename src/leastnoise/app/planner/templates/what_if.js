// What if …: changes of the specification, and its text.
const FIRST_MONTH = "2026-01", LAST_MONTH = "2026-12";

function addCard(c) {
  const name = a => h("label", {}, h("input", { type: "checkbox", name: "cross", value: a.name }), a.name);
  const boxes = h("fieldset", { class: "checks" }, h("legend", { class: "unseen" }, "attributes of the new table"), c.attributes.map(name));
  const add = async () => {
    const ticked = [...boxes.querySelectorAll("input:checked")];
    const isDone = await edit({ edit: "add", attributes: ticked.map(one => one.value) }, `added the table ${ticked.length ? ticked.map(one => one.value).join(" by ") : "of the total"}`);
    if (isDone) { document.getElementsByName("cross").forEach(one => { one.checked = false; }); }
  };
  return h("div", { class: "card" }, h("h3", {}, "… there were one more table?"), boxes,
    h("p", { class: "note" }, "Tick the attributes that it tells apart; none for the total."), h("button", { id: "add-table", onclick: add }, "Add it"));
}
function coarsenCard(c) {
  const coarse = c.attributes.filter(a => a.coarser.length), fixed = c.attributes.filter(a => !a.coarser.length).map(a => a.name);
  const which = h("select", { id: "coarsen-which", "aria-label": "attribute", onchange: () => fill() }, coarse.map(a => h("option", { value: a.name }, a.name)));
  const by = h("select", { id: "coarsen-by", "aria-label": "how coarse", onchange: () => tell() });
  const note = h("p", { class: "note", id: "coarsen-note" });
  const chosen = () => coarse.find(one => one.name === which.value);
  const tell = () => {
    const a = chosen(), to = a && a.coarser.find(one => one.by === Number(by.value));
    note.textContent = !to ? "" : a.kind === "hierarchy" ? `${to.n_values} values instead of ${a.size}. The column of the data must then hold these regions.`
      : to.n_values ? `${to.n_values} values instead of ${a.size}.` : "";
  };
  const fill = () => { const a = chosen(); by.replaceChildren(...(a ? a.coarser : []).map(one => h("option", { value: one.by }, one.label))); tell(); };
  fill();
  by.refill = fill;
  return h("div", { class: "card" }, h("h3", {}, "… an attribute were coarser?"),
    coarse.length > 0 && [h("div", { class: "fields" }, which, by), note,
      h("button", { id: "coarsen", onclick: () => edit({ edit: "coarsen", attribute: which.value, by: Number(by.value) }, `made ${which.value} coarser`) }, "Make it coarser")],
    fixed.length > 0 && h("p", { class: "note", id: "fixed" }, `${listed(fixed)} ${fixed.length === 1 ? "stays" : "stay"} as declared: nothing says which of the values belong together. Declare a hierarchy, or ask for groups by a query of kind "cases", in the text below.`));
}
function peopleCard(c) {
  const records = field => {
    const x = numberIn(field.value);
    if (x === null || x < 1 || x % 1) { say("records per person is a whole number, 1 or more"); return; }
    edit({ edit: "people", records_per_person: x }, `set records per person to ${x}`);
  };
  const relations = [["add-remove", "what is added or removed"], ["replace-one", "what is replaced"]];
  return h("div", { class: "card" }, h("h3", {}, "… others were protected?"), h("div", { class: "fields" },
    h("label", {}, "neighbouring tables differ by", h("select", { id: "neighbours", onchange: event => edit({ edit: "people", neighbours: event.target.value }, "changed who is protected") },
      relations.map(([k, words]) => h("option", { value: k, selected: k === c.neighbours }, words)))),
    h("label", {}, "records per person", h("input", { type: "text", inputmode: "numeric", id: "records", value: String(c.records_per_person), onchange: event => records(event.target) }))));
}
function periodCard(c) {
  const first = h("input", { type: "text", class: "wide", id: "month-first", "aria-label": "first month", value: FIRST_MONTH });
  const last = h("input", { type: "text", class: "wide", id: "month-last", "aria-label": "last month", value: LAST_MONTH });
  const title = h("h3", {}, "… it were published as time goes on?");
  if (c.over) return h("div", { class: "card" }, title, h("p", {}, `Each period of ${c.over} is published when it ends, paid for once.`),
    h("button", { id: "all-at-once", onclick: () => edit({ edit: "all-at-once" }, "publish all at once") }, "Publish all at once"));
  if (c.periods.length) return h("div", { class: "card" }, title, h("button", { id: "monthly", onclick: () => edit({ edit: "monthly", attribute: c.periods[0] }, `publish by ${c.periods[0]}`) }, `Publish by ${c.periods[0]}`));
  return h("div", { class: "card" }, title, h("div", { class: "fields" }, first, "to", last),
    h("button", { id: "monthly", onclick: () => edit({ edit: "monthly", first: first.value, last: last.value }, "publish every table by month") }, "Publish every table by month"));
}
function whatIf() {
  const c = state.controls;
  if (isStatic || !c) return null;
  return h("section", { class: "noprint", "aria-labelledby": "what-if-title" }, h("h2", { id: "what-if-title" }, "What if …"),
    h("p", { class: "note" }, "Each change is designed again and shown beside the plan that is kept. Undo takes it back."),
    h("div", { class: "cards" }, addCard(c), coarsenCard(c), peopleCard(c), periodCard(c)));
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
    h("div", { class: "tools" }, h("button", { id: "apply", onclick: () => { const text = box.value; typed = null; edit({ edit: "text", text }, "changed the text"); } }, "Apply the text")));
}
