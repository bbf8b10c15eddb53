// The page is drawn from one state. In the file to pass on nothing is sent; elsewhere every control is an edit of
// the specification, made by the server.
let state = JSON.parse(document.getElementById("state").textContent);
const isStatic = state.is_static;
const base = state.base || "";        // where the server answers, if the address of the page does not say it
const app = document.getElementById("app");
let typed = null;                     // the text in the editor, if it differs

// ---------------------------------------------------------------- the head
function stateWords() {
  const view = state.view, job = state.job;
  if (state.fault) return h("span", { class: "pill wrong" }, "the specification has an error");
  if (job && !isStatic) return [h("span", { class: "pill busy", id: "job" }, `${job.stage}${job.step ? `, step ${job.step}` : ""}${job.gap !== null ? `, gap ${num(job.gap, 2)}` : ""} …`), h("button", { id: "cancel", onclick: () => act("cancel") }, "Cancel")];
  if (state.error) return h("span", { class: "pill wrong" }, "no plan");
  if (view) return h("span", { class: view.misses_targets ? "pill wrong" : "pill", id: "ready" }, view.misses_targets ? "an accuracy is missed" : view.status === "optimal" ? "designed, proved optimal" : "designed");
  return null;
}
function savedWords() {
  if (!state.is_saved) return `not saved to ${state.name} yet`;
  if (!state.saved_at) return `as in ${state.name}`;
  return `saved to ${state.name} at ${new Date(1000 * state.saved_at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}
function tools() {
  const own = state.name.replace(/\.toml$/, "");
  return h("div", { class: "tools" }, !isStatic && [
    h("button", { id: "undo", disabled: state.undo === null, title: state.undo && `undo: ${state.undo}`, onclick: () => act("undo") }, "Undo"),
    h("button", { id: "redo", disabled: state.redo === null, title: state.redo && `redo: ${state.redo}`, onclick: () => act("redo") }, "Redo"),
    h("button", { id: "keep", disabled: state.kept.is_present || !state.view, onclick: keep }, "Keep this plan beside"),
    h("button", { id: "save", class: state.is_saved ? "" : "main", disabled: state.is_saved || Boolean(state.fault), onclick: save }, `Save to ${state.name}`),
    h("button", { id: "get-text", onclick: () => download("text", state.name) }, "Download the TOML"),
    h("button", { id: "get-plan", disabled: !state.has_plan, onclick: () => download("plan", `${own}.plan`) }, "Download the plan"),
    h("button", { id: "get-page", disabled: !state.view, onclick: () => download("page", `${own}-plan.html`) }, "Download as one page")],
    h("button", { id: "print", onclick: () => window.print() }, "Print"));
}
function head() {
  return [h("header", {}, h("h1", {}, `Plan for ${state.name}`),
      h("div", { class: "state" }, stateWords(), isStatic ? h("span", { class: "noprint" }, "A page to read: privacy can be moved, the rest is as it was planned.") : h("span", { id: "saved" }, savedWords()))),
    tools(),
    state.is_changed_on_disk && h("div", { class: "fault", id: "changed", role: "alert" }, h("p", {}, `${state.name} was changed by another program. It will not be overwritten. `, h("button", { id: "reload", onclick: () => act("reload") }, "Read it again"))),
    faultBox(),
    state.error && h("div", { class: "fault", id: "error", role: "alert" }, h("p", {}, state.error), !isStatic && h("button", { id: "again", onclick: () => act("again") }, "Design again"))];
}
// Always in sight: the privacy, and whether all that was asked is met.
function bar() {
  const view = shownView();
  if (!view) return null;
  const wanted = view.tables.filter(t => t.target !== null), missed = wanted.filter(t => !isMet(t, scale())), likely = isRough() ? "likely " : "";
  const words = isOpenQuestion() ? ["", "designing …"] : !wanted.length ? ["", "no accuracy asked for"]
    : missed.length ? ["missed", `✗ ${likely}missed: ${listed(missed.map(t => t.name))}`] : ["met", `✓ ${likely}all that was asked is met`];
  return h("div", { class: "bar noprint", id: "bar" }, h("strong", {}, goalText(goal())), h("span", {}, deltaText(goal())), h("span", { class: words[0] }, words[1]));
}

// ---------------------------------------------------------------- drawing
const HELD = ["ask-which", "ask-width", "ask-level", "coarsen-which", "coarsen-by", "month-first", "month-last"];
let waiting = false;
function redrawLater() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } }
function parts() { return [head(), bar(), privacySection(), accuracySection(), whatIf(), fileSection()].flat(9).filter(Boolean); }
// What somebody has chosen and not yet used stays when the page is drawn again.
function choices() {
  return { values: HELD.map(id => document.getElementById(id)).map(node => node && node.value), ticks: [...document.getElementsByName("cross")].filter(one => one.checked).map(one => one.value) };
}
function chooseAgain({ values, ticks }) {
  HELD.forEach((id, i) => {
    const node = document.getElementById(id);
    if (!node || values[i] === null || (node.options && ![...node.options].some(one => one.value === values[i]))) return;
    node.value = values[i];
    if (node.id === "coarsen-which") document.getElementById("coarsen-by").refill();
    if (node.id === "coarsen-by") node.dispatchEvent(new Event("change"));
  });
  for (const one of document.getElementsByName("cross")) one.checked = ticks.includes(one.value);
}
function draw() {
  const active = document.activeElement, id = active && active.id, chosen = choices(), top = window.scrollY;
  const isText = active && active.tagName === "INPUT" && active.type === "text";
  const held = isText ? { value: active.value === active.drawnValue ? null : active.value, start: active.selectionStart, end: active.selectionEnd } : null;
  const area = document.getElementById("text"), place = area ? [area.scrollTop, area.selectionStart, area.selectionEnd] : null;
  // While the slider is held its own element must stay: all else is drawn around it.
  if (id === "slider") around(active, app, h("div", {}, parts()));
  else app.replaceChildren(...parts());
  chooseAgain(chosen);
  const again = id && id !== "slider" && document.getElementById(id);
  if (again) {
    again.focus({ preventScroll: true });
    if (held && again.type === "text") { if (held.value !== null) again.value = held.value; again.setSelectionRange(held.start, held.end); }
  }
  const now = document.getElementById("text");
  if (now && place) { now.scrollTop = place[0]; if (id === "text") now.setSelectionRange(place[1], place[2]); }
  window.scrollTo(0, top);
}
// Put what is fresh in the place of what is there, but for one element and those around it.
function around(kept, old, fresh) {
  const own = [...old.children].find(one => one.contains(kept)), other = [...fresh.children].find(one => one.id === kept.id || one.querySelector(`#${kept.id}`));
  const all = [...fresh.childNodes], at = all.indexOf(other);
  for (const one of [...old.childNodes]) if (one !== own) one.remove();
  own.before(...all.slice(0, at));
  own.after(...all.slice(at + 1));
  if (own !== kept) around(kept, own, other);
  else { kept.setAttribute("aria-valuetext", other.getAttribute("aria-valuetext")); if (!moved) kept.value = other.value; }
}

// ---------------------------------------------------------------- the server
async function send(what, body) {
  const answer = await fetch(base + what, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ version: state.version, ...body }) });
  return [answer.status, await answer.json()];
}
// Whether it was done.
async function act(what, body, words) {
  const before = state.view;
  try {
    const [status, found] = await send(what, body || {});
    if (status === 200) {
      if (found.version !== state.version) { since = Date.now(); lastChange = words ? { words, before, version: found.version } : null; }
      state = { ...found, is_static: false };
      moved = null;
      if (what !== "cancel") typed = null;
    } else {
      say(found.message);
      moved = null;
      if (found.state) { state = { ...found.state, is_static: false }; typed = null; }
    }
    draw();
    return status === 200;
  } catch {
    say("The planner does not answer: its command was stopped. What you did not save is lost.");
    return false;
  }
}
function edit(change, words) { return act("edit", { change }, words); }
async function keep() { if (await act("keep")) say("Kept. Every change from now on is shown beside this plan, with its price."); }
async function save() { if (await act("save")) say(`${state.name} now holds this specification. Design it with: leastnoise design ${state.name}`); }
async function download(what, name) {
  const answer = await fetch(base + what);
  if (!answer.ok) { say(answer.status === 422 ? await answer.text() : "It is not there yet."); return; }
  const link = h("a", { href: URL.createObjectURL(await answer.blob()), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
async function poll() {
  try {
    const answer = await fetch(`${base}state?seen=${state.stamp}`), found = await answer.json();
    // An answer that was on its way while something was done here is older than what is shown.
    if (found.version !== undefined && !moved && found.stamp >> 1 >= state.stamp >> 1) {
      if (found.version !== state.version) { typed = null; moved = null; lastChange = null; since = Date.now(); }
      state = { ...found, is_static: false };
      draw();
    }
  } catch { /* said when somebody acts */ }
  setTimeout(poll, state.job ? 150 : 1000);
}
if (base) {
  // For when the tab is read again: it is asked for at /, without the key in the address and without asking to post again.
  sessionStorage.setItem("key", base.slice(1, -1));
  history.replaceState(null, "", "/");
}
draw();
document.body.dataset.ready = "true";
if (!isStatic) poll();
