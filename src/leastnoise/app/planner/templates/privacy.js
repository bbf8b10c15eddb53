// How much privacy: the goal under the slider, what it means, and what it leaves of a budget.
let moved = null;                     // goal under the slider, before it is an edit

function goal() { return moved || plannedGoal(); }
function plannedGoal() { return (state.controls && state.controls.goal) || (shownView() && shownView().goal) || { epsilon: 1, delta: 1e-6 }; }
function isPure(g) { return g.epsilon !== undefined && g.delta === undefined; }
function kindOf(g) { return g.rho !== undefined ? "rho" : g.mu !== undefined ? "mu" : g.delta === undefined ? "pure" : "epsilon"; }
function mainKey(g) { return g.rho !== undefined ? "rho" : g.mu !== undefined ? "mu" : "epsilon"; }
function goalText(g) { const key = mainKey(g); return `${LETTERS[key]} = ${num(g[key], 4)}`; }
function deltaText(g) { return g.delta !== undefined ? `at δ = ${exact(g.delta)}` : isPure(g) ? "pure, no δ" : ""; }
function scale() {                    // factor on all standard errors for the privacy that is shown
  const view = shownView();
  if (!view || isPure(goal()) !== view.is_pure) return 1;
  return view.loss / lossOf(goal());
}
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
  const words = `of 100 guesses, tossing a coin gets 50 right; with this release at most ${50 + gain} are right`;
  return h("figure", {}, h("svg", { viewBox: "0 0 100 100", role: "img", "aria-label": words }, dots),
    h("figcaption", {}, "of 100 guesses", h("span", { class: "key sure" }, "right by chance"), h("span", { class: "key gain" }, "right by the release")));
}
function sameGoal(g) {
  if (isPure(g)) return `one person changes any result's chance by a factor of at most ${num(Math.exp(g.epsilon))}`;
  const loss = lossOf(g), texts = { epsilon: () => `ε = ${num(epsilonOf(loss, 1e-6), 4)} at δ = 1e-6`, mu: () => `μ = ${num(loss, 4)}`, rho: () => `ρ = ${num(loss * loss / 2, 4)}` };
  return ["rho", "mu", "epsilon"].filter(key => key !== mainKey(g)).map(key => texts[key]()).join(", ");
}
function exactness(view, g) {
  if (isPure(g) !== view.is_pure) return "Another kind of noise: it is designed again.";
  if (view.is_estimate) return "";
  if (view.is_scalable) return "Accuracy below follows the slider exactly: the best shape of the noise does not depend on privacy.";
  const why = "With accuracies asked for, the best shape depends on privacy";
  if (!isStatic) return `${why}: while you move, figures are an estimate; the design follows.`;
  return moved ? `An estimate. ${why}.` : `${why}: if you move it, figures are an estimate.`;
}
function goalFields(g) {
  const kinds = [["epsilon", "ε with δ"], ["pure", "ε alone (pure)"], ["rho", "ρ (zCDP)"], ["mu", "μ (Gaussian)"]];
  const change = (key, field) => {
    const x = numberIn(field.value);
    if (x === null || x <= 0 || (key === "delta" && x >= 1)) {
      say(`${LETTERS[key]} must be a positive number${key === "delta" ? " below 1" : ""}`);
      field.value = exact(g[key]);
    } else commitPrivacy({ ...g, [key]: x });
  };
  return h("div", { class: "fields" },
    h("label", {}, "stated as", h("select", { id: "goal-kind", onchange: event => commitPrivacy(converted(event.target.value, goal())) },
      kinds.filter(([k]) => !isStatic || (k === "pure") === isPure(g)).map(([k, words]) => h("option", { value: k, selected: k === kindOf(g) }, words)))),
    Object.keys(g).map(key => h("label", {}, LETTERS[key],
      h("input", { type: "text", inputmode: "decimal", id: `goal-${key}`, value: exact(g[key]), onchange: event => change(key, event.target) }))));
}
function slider(g) {
  const key = mainKey(g), letter = LETTERS[key], [low, high] = RANGE[key];
  return [h("label", { class: "unseen", for: "slider" }, `privacy, ${letter}: more privacy to the left, more accuracy to the right`),
    h("input", { type: "range", id: "slider", min: 0, max: 1000, step: 1, value: sliderOf(g), "aria-valuetext": goalText(g),
      oninput: event => { moved = movedTo(Number(event.target.value)); redrawLater(); },
      onchange: event => { commitPrivacy(movedTo(Number(event.target.value))); } }),
    h("div", { class: "ends" }, h("span", {}, h("strong", {}, `${letter} = ${exact(low)}`), " more privacy, more noise"), h("span", {}, "less noise, less privacy ", h("strong", {}, `${letter} = ${exact(high)}`)))];
}
// In the page to pass on: what was planned, once privacy was moved from it.
function wayBack() {
  if (!isStatic || !moved) return null;
  const planned = plannedGoal();
  return h("p", { class: "note", id: "planned" }, `Planned: ${[goalText(planned), deltaText(planned)].filter(Boolean).join(" ")}. `,
    h("button", { id: "back", onclick: () => { moved = null; draw(); document.getElementById("slider").focus(); } }, "Back to the plan"));
}
function privacySection() {
  const g = goal(), view = shownView(), right = guessOf(lossOf(g), isPure(g));
  const percent = Math.min(Math.ceil(right * 1000 - 1e-6) / 10, 100);
  const isFound = !isStatic && state.controls && !state.controls.goal && !moved;
  return h("section", { "aria-labelledby": "privacy-title" }, h("h2", { id: "privacy-title" }, "How much privacy"),
    h("div", { class: "columns" },
      h("div", {},
        h("p", { class: "big", id: "main-number" }, `${goalText(g)} `, h("small", {}, deltaText(g))),
        wayBack(),
        isFound && h("p", { class: "note" }, "The file gives no privacy: this is the least that meets the accuracies asked for. Move it to fix it."),
        slider(g), goalFields(g),
        h("p", { class: "note", id: "equivalents" }, `The same: ${sameGoal(g)}.`),
        view && h("p", { class: "note noprint", id: "exactness" }, exactness(view, g))),
      h("div", {},
        h("div", { class: "risk" }, riskPicture(right), h("p", { id: "risk" }, "Somebody who knows all else, and guesses from the release whether one person is in the table, is ",
          h("strong", {}, `right at most ${percent.toFixed(1)}% of the time`), "; tossing a coin is right 50% of the time.")),
        view && view.promise && h("p", { class: "note", id: "promise" }, moved ? `The plan was made for ${view.promise}. You have moved privacy from there.` : `The promise: ${view.promise}.`),
        view && view.budget.length > 0 && h("div", { id: "budget" }, h("h3", {}, "The budget"), view.budget.map(line => h("p", {}, line))))));
}
