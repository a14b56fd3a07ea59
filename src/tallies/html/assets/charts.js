"use strict";
// Drawing: a chart is a plain object (see charts.py) and a width; the answer is an <svg> and its stops, the places that have a
// tooltip. Pointer and arrow keys both walk the stops. Text enters by textContent only.
const Charts = (() => {
  const NS = document.getElementById("probe").namespaceURI;
  const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
  const AMOUNT = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]]; // cividis
  const SIGN = [[5, 85, 160], [120, 175, 220], [255, 255, 255], [240, 150, 110], [178, 40, 20]]; // white at zero
  const COLOURS = 12;
  const READABLE = 60; // names beside a matrix that are read without zooming

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) node.setAttribute(key, value);
    for (const child of children) node.append(child);
    return node;
  }

  const plain = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 8 }); // made once: a page may write ten thousand numbers

  function number(v, digits = 4) {
    if (v === null || v === undefined || Number.isNaN(v)) return "–";
    if (v !== 0 && (Math.abs(v) >= 1e7 || Math.abs(v) < 1e-4)) return v.toExponential(2).replace("e+", "e");
    return plain.format(Number(v.toPrecision(digits))).replace("-", "−");
  }

  function ticks(low, high, count, whole) {
    const raw = Math.max((high - low) / Math.max(count, 1) || 1, whole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(Number((i * step).toPrecision(12)));
    return out;
  }

  // of an axis of logarithms: powers of ten, or where it has less than two of them, round numbers
  function logTicks(low, high, count) {
    const powers = ticks(low, high, count).filter(Number.isInteger);
    return powers.length > 1 ? powers : ticks(10 ** low, 10 ** high, count).filter((v) => v > 0).map(Math.log10);
  }

  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v !== null && Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
    if (low > high) return [0, 1];
    return low === high ? [low - (Math.abs(low) * 0.05 || 0.5), high + (Math.abs(high) * 0.05 || 0.5)] : [low, high];
  }

  const mix = (stops, t) => {
    const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    return stops[i].map((c, j) => Math.round(c + (at - i) * (stops[i + 1][j] - c)));
  };
  const dark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 140;
  const pen = document.createElement("canvas").getContext("2d");
  const letters = ["12px", "600 12px"].map((size) => `${size} ${getComputedStyle(document.body).fontFamily}`);
  const long = (text, bold = false) => { // letters differ from one system to the next: words are measured
    pen.font = letters[+bold];
    return pen.measureText(text).width;
  };
  function clip(text, room) { // the most letters that fit
    if (long(text) <= room) return text;
    let [fits, not] = [1, text.length];
    while (not - fits > 1) { const half = (fits + not) >> 1; if (long(text.slice(0, half) + "…") <= room) fits = half; else not = half; }
    return text.slice(0, fits) + "…";
  }
  function titled(title, width, place) { // the title of an axis, its letters closer where the figure is narrow
    const text = clip(title, width * 1.2), tight = long(text) > width ? width : null;
    return svg("text", { ...place, textLength: tight, lengthAdjust: "spacingAndGlyphs", class: "axis" }, text);
  }
  function below(title, x, y, width) { // in the middle of its axis, or as near to it as the figure has room
    const half = Math.min(long(title), width) / 2;
    return titled(title, width, { x: Math.max(Math.min(x, width - half), half), y, "text-anchor": "middle" });
  }
  const colour = (i) => "s" + (i % COLOURS);

  // the shape of series i: twelve colours, four shapes, so that 48 series differ, and colour never stands alone
  function shape(i, x, y, r, attributes) {
    const kind = (i + Math.floor(i / COLOURS)) % 4;
    const path = [
      `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0`,
      `M${x - r * 0.9},${y - r * 0.9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}z`,
      `M${x},${y - r * 1.2}l${r * 1.15},${r * 2}h${-r * 2.3}z`,
      `M${x},${y - r * 1.3}l${r * 1.3},${r * 1.3}l${-r * 1.3},${r * 1.3}l${-r * 1.3},${-r * 1.3}z`,
    ][kind];
    return svg("path", { d: path, class: colour(i), ...attributes });
  }
  const dash = (i) => DASHES[Math.floor(i / COLOURS) % 4] || null;

  // laws by their parameters: thousands of densities cost a few numbers each
  const LAWS = {
    normal: (x, [weight, mean, sd]) => (weight / (sd * Math.sqrt(2 * Math.PI))) * Math.exp(-0.5 * ((x - mean) / sd) ** 2),
    poisson: (x, [weight, rate]) => {
      let log = -rate + (rate > 0 ? x * Math.log(rate) : x > 0 ? -Infinity : 0);
      for (let i = 2; i <= x; i++) log -= Math.log(i);
      return weight * Math.exp(log);
    },
  };

  function frame(spec, width, height, xs, ys) {
    const log = { x: spec.x.log, y: spec.y.log };
    const value = (axis, v) => (log[axis] ? Math.log10(Math.max(v, 1e-300)) : v);
    let [x0, x1] = (spec.x.domain || extent(xs)).map((v) => value("x", v));
    let [y0, y1] = (spec.y.domain || extent(ys)).map((v) => value("y", v));
    const yTicks = (log.y ? logTicks : ticks)(y0, y1, 5);
    const show = (axis, t) => (spec[axis].plain ? String(t) : log[axis] ? number(10 ** t) : number(t));
    const left = Math.max(...yTicks.map((t) => long(show("y", t))), 12) + 8;
    const box = spec.bare ? { left: 70, right: width - 70, top: 16, bottom: height - 16 } : { left, right: width - 12, top: spec.series && spec.series.some((s) => s.name) ? 38 : 26, bottom: height - 42 }; // names of lines stand above them, and below the title
    if (spec.equal) { // one unit is as long upwards as sideways
      const unit = Math.max((x1 - x0) / (box.right - box.left), (y1 - y0) / (box.bottom - box.top));
      const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
      [x0, x1] = [mx - (unit * (box.right - box.left)) / 2, mx + (unit * (box.right - box.left)) / 2];
      [y0, y1] = [my - (unit * (box.bottom - box.top)) / 2, my + (unit * (box.bottom - box.top)) / 2];
    }
    const X = (v) => box.left + ((value("x", v) - x0) / (x1 - x0)) * (box.right - box.left);
    const Y = (v) => box.bottom - ((value("y", v) - y0) / (y1 - y0)) * (box.bottom - box.top);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    if (spec.bare) return { root, box, X, Y, x0, x1, y0, y1 }; // places mean nothing by themselves, as in a network
    const back = svg("g", {});
    for (const t of (log.y ? logTicks : ticks)(y0, y1, 5)) {
      const y = box.bottom - ((t - y0) / (y1 - y0)) * (box.bottom - box.top);
      back.append(svg("path", { d: `M${box.left},${y}H${box.right}`, class: "grid" }));
      back.append(svg("text", { x: box.left - 6, y: y + 4, "text-anchor": "end", class: "tick" }, show("y", t)));
    }
    const most = Math.max(2, Math.floor((box.right - box.left) / 75));
    for (const t of (log.x ? logTicks : ticks)(x0, x1, most, spec.x.whole)) {
      const x = box.left + ((t - x0) / (x1 - x0)) * (box.right - box.left);
      back.append(svg("path", { d: `M${x},${box.bottom}v5`, class: "base" }));
      back.append(svg("text", { x, y: box.bottom + 17, "text-anchor": "middle", class: "tick" }, show("x", t)));
    }
    back.append(svg("path", { d: `M${box.left},${box.bottom}H${box.right}`, class: "base" }));
    back.append(below(spec.x.title, (box.left + box.right) / 2, height - 6, width));
    back.append(titled(spec.y.title, width, { x: 0, y: 12 }));
    root.append(back);
    return { root, box, X, Y, x0, x1, y0, y1 };
  }

  function lines(spec, width, picked) {
    const height = Math.min(Math.max(width * 0.55, 230), 360);
    const series = spec.series.map((s) => {
      if (!s.law) return s;
      const [a, b] = spec.x.domain, whole = s.law === "poisson", x = [];
      if (whole) { const step = Math.max(1, Math.ceil((b - a) / 160)); for (let v = Math.ceil(a); v <= b; v += step) x.push(v); }
      else for (let i = 0; i <= 240; i++) x.push(a + ((b - a) * i) / 240);
      return { ...s, x, y: x.map((v) => LAWS[s.law](v, s.p)), marks: whole && x.length < 40, fill: !whole };
    });
    const all = series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]);
    const y = spec.y.zero ? [0, extent(all)[1] * 1.08] : null;
    const f = frame({ ...spec, y: { ...spec.y, domain: spec.y.domain || y } }, width, height, series.flatMap((s) => s.x), all);
    if (spec.diagonal) f.root.append(svg("path", { d: `M${f.X(f.x0)},${f.Y(f.x0)}L${f.X(f.x1)},${f.Y(f.x1)}`, class: "ref" }));
    if (spec.band) f.root.append(svg("rect", { x: f.X(spec.band[0]), y: f.box.top, width: f.X(spec.band[1]) - f.X(spec.band[0]), height: f.box.bottom - f.box.top, class: "area s7" }));
    if (spec.mark !== undefined) f.root.append(svg("path", { d: `M${f.X(spec.mark)},${f.box.top}V${f.box.bottom}`, class: "ref" }));
    const labels = [], stops = [];
    series.forEach((s, i) => {
      const c = s.colour === undefined ? (s.key === undefined ? i : s.key) : s.colour;
      const dim = picked !== null && s.key !== undefined && s.key !== picked ? " dim" : "";
      const g = svg("g", { class: dim });
      const path = s.x.map((v, j) => (s.y[j] === null ? "" : `${j && s.y[j - 1] !== null ? (s.step ? "H" + f.X(v) + "V" + f.Y(s.y[j]) : "L" + f.X(v) + "," + f.Y(s.y[j])) : "M" + f.X(v) + "," + f.Y(s.y[j])}`)).join("");
      if (s.fill) g.append(svg("path", { d: `${path}L${f.X(s.x[s.x.length - 1])},${f.Y(f.y0)}L${f.X(s.x[0])},${f.Y(f.y0)}Z`, class: `area ${colour(c)}` }));
      if (s.low) s.x.forEach((v, j) => g.append(svg("path", { d: `M${f.X(v)},${f.Y(s.low[j])}V${f.Y(s.high[j])}`, class: `line ${colour(c)}` })));
      g.append(svg("path", { d: path, class: `line ${colour(c)}`, "stroke-dasharray": s.dash ? "4 4" : dash(c) }));
      if (s.marks) s.x.forEach((v, j) => s.y[j] !== null && g.append(shape(c, f.X(v), f.Y(s.y[j]), 3.5)));
      f.root.append(g);
      const top = s.y.reduce((best, v, j) => (v !== null && (best < 0 || v > s.y[best]) ? j : best), -1);
      if (top >= 0 && s.name) labels.push({ text: s.name, x: f.X(s.x[top]), y: f.Y(s.y[top]) - 6, dim });
      s.x.forEach((v, j) => {
        if (s.y[j] === null) return;
        const range = s.low ? ` (${number(s.low[j])} to ${number(s.high[j])})` : "";
        const tip = s.tips ? s.tips[j] : `${s.name ? s.name + "\n" : ""}${spec.x.title}: ${number(v)}\n${spec.y.title}: ${number(s.y[j])}${range}`;
        stops.push({ x: f.X(v), y: f.Y(s.y[j]), tip, key: s.key });
      });
    });
    if (labels.length <= 8 && !spec.show) { // a legend says the names where lines lie too close for words
      const taken = [];
      for (const l of labels.sort((a, b) => a.y - b.y)) {
        const half = long(l.text) * 0.55, x = Math.min(Math.max(l.x, f.box.left + half), f.box.right - half);
        let yy = Math.max(l.y, 28);
        while (taken.some((t) => Math.abs(t.x - x) < t.half + half && Math.abs(t.y - yy) < 14)) yy += 14;
        if (half * 2 > width * 0.6) continue;
        taken.push({ x, y: yy, half });
        f.root.append(svg("text", { x, y: yy, "text-anchor": "middle", class: "halo" + l.dim }, l.text));
      }
    }
    return { root: f.root, stops };
  }

  function bars(spec, width, picked) {
    const n = spec.labels.length, G = spec.series.length;
    const thick = G === 1 ? 18 : Math.max(7, Math.min(14, 44 / G)), gap = G === 1 ? 7 : 14;
    const values = [...spec.series.flatMap((s) => [...s.values, ...(s.low || []), ...(s.high || [])]), ...(spec.behind ? spec.behind.values : [])];
    let [low, high] = spec.x.domain || extent([0, ...values]);
    if (low > 0) low = 0;
    const longest = Math.max(...spec.labels.map((l) => long(l)), 7);
    const above = longest + 12 > width * 0.42, room = above ? 18 : 0; // names too long for the side stand above their bars
    const signed = low < 0; // red for, blue against, as in the tables of weights and correlations
    const left = (above ? 4 : longest + 12) + (signed ? 52 : 0), right = width - 58, top = 6; // numbers stand outside of both ends
    const height = top + n * (thick * G + gap + room) + 44;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    const X = (v) => left + ((v - low) / (high - low || 1)) * (right - left);
    const stops = [];
    for (const t of ticks(low, high, Math.max(2, Math.floor((right - left) / 75)))) {
      root.append(svg("path", { d: `M${X(t)},${top}V${height - 40}`, class: "grid" }));
      root.append(svg("text", { x: X(t), y: height - 26, "text-anchor": "middle", class: "tick" }, number(t)));
    }
    spec.labels.forEach((label, i) => {
      const y = top + i * (thick * G + gap + room) + gap / 2 + room;
      const chosen = spec.keys && picked !== null && spec.keys[i] === picked;
      const place = above ? { x: 8, y: y - 6, class: "over" } : { x: longest + 4, y: y + (thick * G) / 2 + 4, "text-anchor": "end" };
      root.append(svg("text", { ...place, "font-weight": chosen ? 700 : null }, clip(label, above ? width - 8 : longest + 2)));
      if (spec.behind) root.append(svg("rect", { x: X(0), y, width: Math.max(X(spec.behind.values[i]) - X(0), 1), height: thick * G, class: "behind", rx: 2 }));
      const more = spec.behind ? `\n${spec.behind.name}: ${number(spec.behind.values[i])}` : "";
      spec.series.forEach((s, g) => {
        const v = s.values[i];
        if (v === null) return;
        const key = spec.keys ? spec.keys[i] : s.key, c = spec.keyed ? key : s.key === undefined ? (s.colour || (signed && v > 0 ? 1 : 0)) : s.key;
        const dim = !spec.keys && s.key !== undefined && picked !== null && s.key !== picked ? " dim" : "";
        const [a, b] = [X(Math.min(0, v)), X(Math.max(0, v))], yy = y + g * thick;
        root.append(svg("rect", { x: a, y: yy, width: Math.max(b - a, 1), height: thick - (G > 1 ? 1 : 0), class: colour(c) + dim, "stroke-width": 0, rx: 2 }));
        if (s.low) {
          const [u, w, m, cap] = [X(s.low[i]), X(s.high[i]), yy + thick / 2, Math.min(4, thick / 2 - 1)];
          for (const kind of ["whisker under", "whisker"]) root.append(svg("path", { d: `M${u},${m}H${w}M${u},${m - cap}v${2 * cap}M${w},${m - cap}v${2 * cap}`, class: kind + dim }));
        }
        if (chosen) root.append(svg("rect", { x: a - 1, y: yy - 1, width: Math.max(b - a, 1) + 2, height: thick + 2, class: "picked", rx: 3 }));
        const end = v < 0 ? Math.min(a, s.low ? X(s.low[i]) : a) : Math.max(b, s.high ? X(s.high[i]) : b); // of its own bar
        const range = s.low ? ` (${number(s.low[i], 3)} to ${number(s.high[i], 3)})` : "";
        if (thick >= 10) root.append(svg("text", { x: end + (v < 0 ? -5 : 5), y: yy + thick / 2 + 4, "text-anchor": v < 0 ? "end" : null, class: "tick over" + dim }, number(v, 3)));
        stops.push({ x: b, y: yy + thick / 2, box: [0, yy - room, width, yy + thick], key, tip: `${label}${s.name ? "\n" + s.name : ""}\n${spec.x.title}: ${number(v)}${range}${more}` });
      });
    });
    root.append(svg("path", { d: `M${X(0)},${top}V${height - 40}`, class: "base" }), ...root.querySelectorAll(".over")); // names over lines
    root.append(below(spec.x.title, (left + right) / 2, height - 6, width));
    return { root, stops };
  }

  function paint(values, shade) { // a matrix as the address of a picture, one pixel a cell
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [values[0].length, values.length];
    const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height);
    values.flat().forEach((v, i) => image.data.set(v === null ? [128, 128, 128, 40] : [...shade(v), 255], 4 * i));
    pen.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  function heat(spec, width, picked, zoomed) {
    const R = spec.down.length, C = spec.across.length;
    const side = (labels) => Math.max(...labels.map((l) => long(l)), 7) + 10;
    const least = (n) => (n <= READABLE || zoomed ? 13 : 2); // pixels of a cell: with a name, or without
    const spare = width - 22 - 130 * C; // what the widest cells leave is for names
    const names = Math.min(side(spec.down), Math.max(Math.min(width * 0.3, 180), spare)) + 18;
    const left = least(R) > 2 || (width - names - 4) / C >= 11 ? names : 24; // for they are written where rows are tall enough
    const cell = Math.max(Math.min((width - left - 4) / C, 130), least(C)), tall = Math.max(Math.min(cell, R < 6 ? 64 : 46, Math.max(620 / R, 13)), least(R));
    const seen = width;
    width = Math.max(width, left + C * cell + 4); // wider than the page: the figure scrolls, and the legend is where it begins
    const turn = Math.max(...spec.across.map((l) => long(l))) > cell - 4;
    const top = 24 + (cell < 11 ? 0 : turn ? Math.min(side(spec.across), 110) : 18), height = top + R * tall + 46;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    const stops = [], named = tall >= 11;
    let [low, high] = spec.domain || extent(spec.values.flat());
    if (spec.scale === "sign") high = Math.max(Math.abs(low), Math.abs(high)), low = -high; // white is zero, and both signs alike
    const key = (i) => (spec.keys ? spec.keys[i] : i), line = picked === null ? -1 : spec.down.findIndex((_, i) => key(i) === picked);
    const flip = spec.flip && (document.documentElement.dataset.paper || !matchMedia("(prefers-color-scheme: dark)").matches); // strong cells stand out from the paper
    const widest = spec.texts ? Math.max(...spec.texts.flat().map((t) => long(t))) : 0, small = widest > cell - 4; // smaller on a phone
    const fits = tall >= 15 && spec.texts && widest * (small ? 10 / 12 : 1) <= cell - 1; // all numbers, or none
    root.append(svg("text", { x: left, y: 12, class: "axis" }, clip(spec.x.title + " →", width - left)));
    root.append(svg("text", { x: 11, y: top + (R * tall) / 2, transform: `rotate(-90 11 ${top + (R * tall) / 2})`, "text-anchor": "middle", class: "axis" }, clip(spec.y.title, Math.max(R * tall, 90))));
    if (named) spec.down.forEach((l, i) => root.append(svg("text", { x: left - 6, y: top + i * tall + tall / 2 + 4, "text-anchor": "end", "font-weight": line === i ? 700 : null }, clip(l, left - 24))));
    if (cell >= 11) spec.across.forEach((l, j) => {
      const x = left + j * cell + cell / 2;
      root.append(turn
        ? svg("text", { x: 0, y: 0, transform: `translate(${x + 4} ${top - 6}) rotate(-90)`, "font-weight": line === j && spec.keys ? 700 : null }, clip(l, top - 30))
        : svg("text", { x, y: top - 6, "text-anchor": "middle", "font-weight": line === j && spec.keys ? 700 : null }, l));
    });
    const shade = (v) => {
      const t = v === null ? 0 : (v - low) / (high - low || 1);
      if (spec.scale === "sign") return mix(SIGN, t);
      return flip ? mix([[255, 255, 255], mix(AMOUNT, 1 - t)], 0.2 + 3 * t) : mix(AMOUNT, t); // on white, next to nothing is pale
    };
    const told = (i, j) => (spec.tips ? spec.tips[i][j] : `${spec.down[i]}\n${spec.across[j]}\n${spec.unit || "value"}: ${number(spec.values[i][j], 3)}`);
    if (R * C > 2500) { // one picture: a browser is slow with many thousand shapes
      root.append(svg("image", { x: left, y: top, width: C * cell, height: R * tall, preserveAspectRatio: "none", href: paint(spec.values, shade), class: "sharp" }));
      spec.values.forEach((row, i) => row.forEach((v, j) => {
        const [x, y] = [left + j * cell, top + i * tall];
        stops.push({ x: x + cell / 2, y: y + tall / 2, box: [x, y, x + cell, y + tall], key: spec.select ? key(i) : undefined, get tip() { return told(i, j); } });
      }));
    } else spec.values.forEach((row, i) => row.forEach((v, j) => {
      const rgb = shade(v), [x, y] = [left + j * cell, top + i * tall];
      const bare = v === null || (spec.empty && v === 0);
      root.append(svg("rect", { x, y, width: Math.max(cell - 1, 1), height: Math.max(tall - 1, 1), ...(bare ? { class: "none" } : { fill: `rgb(${rgb})` }) }));
      const text = fits ? spec.texts[i][j] : "";
      if (text) root.append(svg("text", { x: x + cell / 2, y: y + tall / 2 + 4, "text-anchor": "middle", class: (dark(rgb) ? "on-dark" : "on-light") + (small ? " small" : "") }, text));
      stops.push({ x: x + cell / 2, y: y + tall / 2, box: [x, y, x + cell, y + tall], key: spec.select ? key(i) : undefined, tip: told(i, j) });
    }));
    if (line >= 0) root.append(svg("rect", { x: left - 1, y: top + line * tall - 1, width: C * cell + 1, height: tall + 1, class: "picked" }));
    legend(root, left, top + R * tall + 14, low, high, (t) => shade(low + t * (high - low)), spec.unit || "", spec.scale === "sign", seen - left);
    return { root, stops };
  }

  // what the colours of a chart mean: a bar from the least to the most, with zero where there are signs
  function legend(root, x, y, low, high, shade, unit, signed, room) {
    const wide = Math.max(Math.min(200, room - long(unit) - 20), Math.min(80, room - 20)), n = 50; // narrow where the unit needs the room
    const g = svg("g", { class: "legend" });
    for (let i = 0; i < n; i++) g.append(svg("rect", { x: x + (i * wide) / n, y, width: wide / n + 0.5, height: 9, fill: `rgb(${shade(i / (n - 1))})` }));
    g.append(svg("rect", { x, y, width: wide, height: 9, class: "frame" }));
    const room0 = wide / 2 > Math.max(...[low, high].map((v) => long(number(v, 3)))) + 18; // for the zero between them
    const at = [[0, low, "start"], ...(signed && room0 ? [[0.5, 0, "middle"]] : []), [1, high, "end"]];
    for (const [t, v, anchor] of at) g.append(svg("text", { x: x + t * wide, y: y + 22, "text-anchor": anchor, class: "tick" }, number(v, signed && !room0 ? 2 : 3)));
    if (unit) g.append(svg("text", { x: x + wide + 10, y: y + 9, class: "tick" }, clip(unit, Math.max(room - wide - 20, 20))));
    root.append(g);
  }

  // a map: shapes by group, or coloured by an amount (`values`), or circles of given area (`sizes`, 0 to 1); arrows from the middle,
  // links between points, words
  function points(spec, width, picked) {
    const height = spec.bare ? Math.min(Math.max(width * 0.75, 300), 620) : Math.min(Math.max(width * 0.62, 280), 520);
    const shapes = spec.outlines || [], arrows = spec.arrows || [], margin = spec.sizes ? 0.12 : 0.04;
    const pad = ([a, b], log) => (log ? [a * 0.8, b * 1.25] : [a - (b - a) * margin, b + (b - a) * margin]);
    const span = (axis, own) => pad(extent([...own, ...[...shapes, ...arrows].flatMap((o) => o[axis])]), spec[axis].log);
    const f = frame(spec, width, height, span("x", spec.px), span("y", spec.py));
    const key = (i) => (spec.keys ? spec.keys[i] : spec.group[i]), off = (k) => (picked !== null && k !== picked ? " dim" : "");
    const faded = (a, b) => (picked !== null && a !== picked && b !== picked ? " dim" : "");
    shapes.forEach((o) => {
      const d = o.x.map((v, i) => `${i ? "L" : "M"}${f.X(v)},${f.Y(o.y[i])}`).join("") + "Z";
      f.root.append(svg("path", { d, class: `area ${colour(o.key)}${off(o.key)}` }), svg("path", { d, class: `line ${colour(o.key)}${off(o.key)}`, "fill-opacity": 0, "stroke-dasharray": dash(o.key) }));
    });
    if (spec.diagonal) {
      const [a, b] = [Math.max(f.x0, f.y0), Math.min(f.x1, f.y1)].map((v) => (spec.x.log ? 10 ** v : v));
      f.root.append(svg("path", { d: `M${f.X(a)},${f.Y(a)}L${f.X(b)},${f.Y(b)}`, class: "ref" }));
    }
    const stops = [];
    (spec.links || []).forEach((l) => {
      const [x, y, u, v] = [f.X(spec.px[l.a]), f.Y(spec.py[l.a]), f.X(spec.px[l.b]), f.Y(spec.py[l.b])];
      const d = spec.ring ? `M${x},${y}Q${(x + u) / 4 + (f.box.left + f.box.right) / 4},${(y + v) / 4 + (f.box.top + f.box.bottom) / 4} ${u},${v}` : `M${x},${y}L${u},${v}`;
      f.root.append(svg("path", { d, class: "link " + colour(l.colour || 0) + faded(key(l.a), key(l.b)), "stroke-width": 0.7 + 5 * l.w, "stroke-dasharray": l.dash ? "5 4" : null }));
    });
    const small = spec.px.length > 800 ? 2.2 : 3.4, largest = Math.min(width, 700) * 0.055 * Math.min(1, Math.sqrt(25 / spec.px.length));
    const radius = (i) => (spec.sizes ? Math.max(3, largest * Math.sqrt(spec.sizes[i])) : small);
    const [low, high] = spec.domain || extent(spec.values || []);
    spec.px.forEach((v, i) => {
      const [x, y, r, k, g] = [f.X(v), f.Y(spec.py[i]), radius(i), key(i), spec.group[i]];
      if (spec.values) {
        const t = spec.values[i], fill = t === null ? "none" : `rgb(${mix(AMOUNT, (t - low) / (high - low || 1))})`;
        f.root.append(svg("circle", { cx: x, cy: y, r: r + 0.6, class: "amount" + off(k), fill }));
      } else if (spec.sizes) f.root.append(svg("circle", { cx: x, cy: y, r, class: "bubble " + colour(g) + off(k) }));
      else f.root.append(shape(g, x, y, r, { class: colour(g) + off(k), "fill-opacity": 0.75, "stroke-width": 0 }));
      if ((spec.rings && spec.rings[i]) || (spec.keys && k === picked)) f.root.append(svg("circle", { cx: x, cy: y, r: r + 4, class: "picked" + off(k), "stroke-width": 1.5 }));
      stops.push({ x, y, box: [x - r / 2, y - r / 2, x + r / 2, y + r / 2], tip: spec.tips[i], key: k });
    });
    arrows.forEach((o) => {
      const [x, y, u, v] = [f.X(0), f.Y(0), f.X(o.x), f.Y(o.y)], turn = Math.atan2(v - y, u - x);
      const head = [2.6, -2.6].map((a) => `M${u},${v}L${u + 8 * Math.cos(turn + a)},${v + 8 * Math.sin(turn + a)}`).join("");
      f.root.append(svg("path", { d: `M${x},${y}L${u},${v}${head}`, class: "arrow" + off(o.key) }));
      stops.push({ x: u, y: v, tip: o.tip, key: o.key });
    });
    const taken = []; // words that would hide each other go above or below (by `aside`) or are left out, the earlier ones stay
    const word = (x, y, text, k, anchor, aside = 0) => {
      const shown = clip(text, Math.min(160, width * 0.3)), w = long(shown, true) + 1, at = anchor === "middle" ? x - w / 2 : anchor === "end" ? x - w : x;
      const left = Math.min(Math.max(at, spec.bare ? 0 : f.box.left), width - w), free = (y) => !taken.some((t) => left < t[2] + 6 && left + w + 6 > t[0] && Math.abs(y - t[1]) < 14);
      const best = [0, aside + 9, -aside - 5, aside + 23, -aside - 19].map((by) => y + (aside ? by : 0)).find(free);
      if (!spec.names && k !== picked && best === undefined) return;
      y = best === undefined ? y : best;
      taken.push([left, y, left + w]);
      f.root.append(svg("text", { x: left, y, class: "halo" + off(k) }, shown));
    };
    arrows.forEach((o) => word(f.X(o.x) + (o.x < 0 ? -4 : 4), f.Y(o.y) + (o.y < 0 ? 12 : -4), o.text, o.key, o.x < 0 ? "end" : "start"));
    if (spec.words) spec.px.forEach((v, i) => {
      if (!spec.words[i]) return;
      if (spec.sizes) word(f.X(v), f.Y(spec.py[i]) + 4, spec.words[i], key(i), "middle", radius(i));
      else word(f.X(v) + (v < 0 ? -8 : 8), f.Y(spec.py[i]) + 4, spec.words[i], key(i), v < 0 ? "end" : "start");
    });
    (spec.names || []).forEach((n) => word(f.X(n.x), f.Y(n.y) + 4, n.text, n.key, "middle"));
    if (spec.values) { // what the colours mean
      const wide = 110, x = f.box.right - wide;
      for (let i = 0; i < 22; i++) f.root.append(svg("rect", { x: x + i * 5, y: 14, width: 5.5, height: 8, fill: `rgb(${mix(AMOUNT, i / 21)})` }));
      f.root.append(svg("text", { x: f.box.right, y: 9, "text-anchor": "end", class: "tick" }, clip(spec.amount || "", wide * 1.6)));
      f.root.append(svg("text", { x: x - 5, y: 22, "text-anchor": "end", class: "tick" }, number(low, 3)), svg("text", { x: f.box.right, y: 34, "text-anchor": "end", class: "tick" }, number(high, 3)));
    }
    return { root: f.root, stops };
  }

  const zooms = (spec) => spec.kind === "heat" && Math.max(spec.down.length, spec.across.length) > READABLE && Math.max(spec.down.length, spec.across.length) <= 400;
  return { draw: { lines, bars, heat, points }, svg, shape, dash, colour, number, zooms };
})();
