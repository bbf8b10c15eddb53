// The privacy curve of Gaussian noise, in doubles: δ(ε; μ) = Φ(a) − e^ε Φ(b), a, b = ±μ/2 − ε/μ.
// Written with the Mills ratio M as φ(x) (M(x) − M(y)), which loses no digits; see gaussian_curve.py.
"use strict";
function mills(x) {
  if (x < 1.5) {
    // M(x) = √(π/2) e^(x²/2) − Σ x^(2k+1)/(2k+1)!!
    let term = x, sum = x;
    for (let k = 1; k < 60; k++) { term *= x * x / (2 * k + 1); sum += term; }
    return Math.sqrt(Math.PI / 2) * Math.exp(x * x / 2) - sum;
  }
  let rest = x;
  for (let k = 160; k >= 1; k--) rest = x + k / rest;
  return 1 / rest;
}
function logDelta(mu, epsilon) {
  const x = epsilon / mu - mu / 2, y = epsilon / mu + mu / 2;
  const density = x => -x * x / 2 - Math.log(2 * Math.PI) / 2;
  if (x >= 0) return density(x) + Math.log(mills(x) - mills(y));
  return Math.log1p(-Math.exp(density(x)) * (mills(-x) + mills(y)));
}
// The point where an increasing function is zero, between two positive numbers.
function root(f, low, high) {
  for (let i = 0; i < 200; i++) {
    const middle = Math.sqrt(low * high);
    if (middle <= low || middle >= high) break;
    if (f(middle) < 0) low = middle; else high = middle;
  }
  return low;
}
function muOf(epsilon, delta) { return root(mu => logDelta(mu, epsilon) - Math.log(delta), 1e-12, 1e4); }
function epsilonOf(mu, delta) {
  if (logDelta(mu, 1e-300) <= Math.log(delta)) return 0;
  return root(epsilon => Math.log(delta) - logDelta(mu, epsilon), 1e-12, 1e8);
}
function normalBelow(x) {
  const tail = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI) * mills(Math.abs(x));
  return x > 0 ? 1 - tail : tail;
}
// What one person loses: μ for Gaussian noise, ε for Laplace.
function lossOf(goal) {
  if (goal.rho !== undefined) return Math.sqrt(2 * goal.rho);
  if (goal.mu !== undefined) return goal.mu;
  return goal.delta === undefined ? goal.epsilon : muOf(goal.epsilon, goal.delta);
}
// The largest chance to guess right whether somebody is in the table; 1/2 is a coin.
function guessOf(loss, isPure) { return isPure ? 1 / (1 + Math.exp(-loss)) : normalBelow(loss / 2); }
