// Probabilities from a file that `model.export(path)` wrote: a reader in plain JavaScript, to copy. docs/scoring.md tells the format.
//     node scoring.js scoring.json < rows.json
// Rows are arrays, in the order of the columns, or objects by their names; null, NaN or nothing is a gap.
"use strict";

const missing = (v) => v === null || v === undefined || Number.isNaN(v);
const same = (v) => (typeof v === "boolean" ? Number(v) : v); // true is 1, as in Python; "1" is not
const log = (v) => (v === null ? -Infinity : v); // null stands for the logarithm of 0

function refuse(column, wanted, value) {
  throw new Error(`column ${column.name} expects ${wanted}, got ${JSON.stringify(value)}`);
}

function number(column, value) {
  if (typeof value === "boolean") return Number(value);
  if (typeof value !== "number" || !Number.isFinite(value)) refuse(column, "finite numbers", value);
  return value;
}

// Eigenvalues and vectors (as rows) of a symmetric matrix, by Jacobi's rotations.
function eigen(S) {
  const n = S.length, A = S.map((row) => row.slice()), V = S.map((_, i) => S.map((_, j) => Number(i === j)));
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) {
      off = Math.max(off, Math.abs(A[p][q]));
      if (A[p][q] === 0) continue;
      const theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
      const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1)), c = 1 / Math.hypot(t, 1), s = t * c;
      for (const row of A) [row[p], row[q]] = [c * row[p] - s * row[q], s * row[p] + c * row[q]];
      for (const M of [A, V]) for (let j = 0; j < n; j++) {
        [M[p][j], M[q][j]] = [c * M[p][j] - s * M[q][j], s * M[p][j] + c * M[q][j]];
      }
    }
    if (off < 1e-18) break;
  }
  return A.map((row, i) => [row[i], V[i]]);
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

// The whitening and log determinant of each covariance, on the columns `o` of those that a row has: "Gaps" in docs/scoring.md.
function whiten(gaussian, o) {
  const cut = (C) => o.map((i) => o.map((j) => C[i][j])), covariances = gaussian.covariance.map(cut);
  const pooled = o.map((_, i) => o.map((_, j) => dot(gaussian.share, covariances.map((C) => C[i][j]))));
  const inverse = o.map((j, i) => {
    const scale = Math.sqrt(Math.max(pooled[i][i], 0)), size = Math.max(...gaussian.mean.map((mean) => Math.abs(mean[j])));
    return scale > Math.max(1e-13 * size, 1e-100) ? 1 / scale : 0;
  });
  const scaled = (C) => C.map((row, i) => row.map((c, j) => c * inverse[i] * inverse[j]));
  const V = eigen(scaled(pooled)).filter(([value]) => value > 1e-10).map(([, vector]) => vector);
  return covariances.map((C) => {
    const S = scaled(C), inside = V.map((v) => V.map((w) => dot(v, S.map((row) => dot(row, w)))));
    const found = eigen(inside).map(([value, turn]) => [Math.max(value, 1e-9), turn]);
    const W = found.map(([value, turn]) => inverse.map((f, i) => (f * dot(turn, V.map((v) => v[i]))) / Math.sqrt(value)));
    return { W, log_det: found.reduce((sum, [value]) => sum + Math.log(value), 0) };
  });
}

function addGaussian(gaussian, columns, row, scores) {
  const o = columns.map((_, j) => j).filter((j) => !missing(row[j]));
  if (!o.length) return;
  const whole = o.length === columns.length;
  const roots = whole ? gaussian.whitening.map((W, g) => ({ W, log_det: gaussian.log_det[g] })) : whiten(gaussian, o);
  scores.forEach((_, k) => {
    const { W, log_det } = roots[roots.length > 1 ? k : 0], x = o.map((j) => number(columns[j], row[j]) - gaussian.mean[k][j]);
    scores[k] -= 0.5 * (log_det + W.reduce((sum, w) => sum + dot(w, x) ** 2, 0));
  });
}

function addColumn(column, value, scores) {
  const { kind } = column;
  if (kind === "multinomial" && missing(value) && value !== undefined) refuse(column, "counts", value);
  if (missing(value)) return;
  if (kind === "categorical" || kind === "bernoulli") {
    const at = column.states.findIndex((state) => same(state) === same(value));
    if (at < 0 && kind === "bernoulli") refuse(column, "true or false", value);
    const found = at < 0 ? column.log_unseen : column.log_p[at];
    scores.forEach((_, k) => (scores[k] += log(found[k])));
    return;
  }
  const x = number(column, value);
  if (kind !== "gaussian" && (x < 0 || (kind === "poisson" && x % 1 !== 0))) refuse(column, "counts", value);
  scores.forEach((_, k) => {
    if (kind === "gaussian") scores[k] -= 0.5 * (Math.log(column.variance[k]) + (x - column.mean[k]) ** 2 / column.variance[k]);
    if (kind === "poisson") scores[k] += (x > 0 ? x * Math.log(column.rate[k]) : 0) - column.rate[k];
    if (kind === "multinomial" && x > 0) scores[k] += x * log(column.log_p[k]);
  });
}

function code(column, value) {
  if (missing(value)) return column.gap === null ? -1 : column.gap;
  if (column.kind === "binned") return column.edges.filter((edge) => edge < number(column, value)).length;
  return column.states.findIndex((state) => same(state) === same(value));
}

function addTerms(model, row, scores) {
  const codes = model.columns.map((column, j) => code(column, row[j]));
  const sizes = model.columns.map(({ kind, states, edges, gap }) => (kind === "binned" ? edges.length + 1 : states.length) + (gap !== null));
  for (const { columns, weights } of model.terms) {
    if (columns.some((j) => codes[j] < 0)) continue; // no known state: the term adds nothing
    const at = columns.reduce((place, j) => place * sizes[j] + codes[j], 0);
    scores.forEach((_, k) => (scores[k] += weights[at][k]));
  }
}

function probabilities(model, row) {
  const cells = Array.isArray(row) ? row : model.columns.map(({ name }) => row[name]);
  const scores = (model.terms ? model.bias : model.log_prior).map(log);
  if (model.terms) addTerms(model, cells, scores);
  else if (model.gaussian) addGaussian(model.gaussian, model.columns, cells, scores);
  else model.columns.forEach((column, j) => addColumn(column, cells[j], scores));
  const top = Math.max(...scores), total = scores.reduce((sum, s) => sum + Math.exp(s - top), 0);
  return scores.map((s) => (top === -Infinity ? 1 / scores.length : Math.exp(s - top) / total));
}

module.exports = { probabilities };

if (require.main === module) {
  const fs = require("fs"), model = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
  if (model.format !== "tallies scoring" || model.version !== 1) throw new Error("this is no scoring of Tallies, version 1");
  console.log(JSON.stringify(JSON.parse(fs.readFileSync(0, "utf8")).map((row) => probabilities(model, row))));
}
