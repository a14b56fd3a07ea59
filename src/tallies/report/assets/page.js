"use strict";
// The page: what is selected (kept in the address, so that a view can be sent as a link), figures with their tools, one tooltip.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const picks = data.picks; // [{key, label, items}]
  const chosen = Object.fromEntries(picks.map((p) => [p.key, null]));
  let last = picks.length ? picks[0].key : null; // the selector that arrow keys step
  const figures = [];
  const tip = document.getElementById("tip"), live = document.getElementById("live");

  function html(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== null) node.setAttribute(key, value);
    for (const child of children) node.append(child);
    return node;
  }
  const items = (key) => picks.find((p) => p.key === key).items;

  // selection

  function pick(key, index, tell = true) {
    chosen[key] = index;
    last = key;
    const parts = picks.filter((p) => chosen[p.key] !== null).map((p) => `${encodeURIComponent(p.key)}=${encodeURIComponent(p.items[chosen[p.key]])}`);
    history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname + location.search);
    refresh();
    if (tell) live.textContent = index === null ? `${key}: ${picks.find((p) => p.key === key).none}` : `${key}: ${items(key)[index]}`;
  }

  function read() { // the selection that the address names; plain anchors are left to the browser
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) return;
    for (const p of picks) chosen[p.key] = null;
    for (const part of hash.split("&")) {
      const [key, value] = part.split("=").map(decodeURIComponent);
      const p = picks.find((q) => q.key === key), index = p ? p.items.indexOf(value) : -1;
      if (index >= 0) chosen[key] = index;
    }
    refresh();
  }

  function step(by) {
    if (last === null) return;
    const n = items(last).length, now = chosen[last];
    pick(last, now === null ? (by > 0 ? 0 : n - 1) : (now + by + n) % n);
  }

  const controls = {};
  function selectors() {
    const form = document.getElementById("picks");
    if (!form) return;
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const p of picks) {
      const long = p.items.length > 20, id = "pick-" + p.key;
      let control;
      if (long) {
        const list = html("datalist", { id: id + "-list" }, ...p.items.map((text) => html("option", { value: text })));
        control = html("input", { id, type: "search", list: list.id, placeholder: `${p.none} – search ${p.items.length}`, autocomplete: "off" });
        form.append(list);
        control.addEventListener("change", () => {
          const text = control.value.trim().toLowerCase(), lower = p.items.map((t) => t.toLowerCase());
          const exact = lower.indexOf(text), index = exact >= 0 ? exact : lower.findIndex((t) => t.includes(text));
          pick(p.key, text === "" || index < 0 ? null : index);
        });
      } else {
        control = html("select", { id }, html("option", { value: "" }, p.none), ...p.items.map((text, i) => html("option", { value: i }, text)));
        control.addEventListener("change", () => pick(p.key, control.value === "" ? null : Number(control.value)));
      }
      controls[p.key] = control;
      const arrow = (text, label, by) => {
        const button = html("button", { type: "button", "aria-label": label }, text);
        button.addEventListener("click", () => { last = p.key; step(by); });
        return button;
      };
      form.append(html("span", { class: "pick" }, html("label", { for: id }, p.label), arrow("‹", `previous ${p.key}`, -1), control, arrow("›", `next ${p.key}`, 1)));
    }
  }

  // tooltip

  function show(stop, svg) {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    tip.textContent = stop.tip;
    tip.style.visibility = "visible";
    const [w, h] = [tip.offsetWidth, tip.offsetHeight];
    const x = box.left + stop.x * scale, y = box.top + stop.y * scale;
    tip.style.left = Math.max(4, Math.min(x + 12, document.documentElement.clientWidth - w - 4)) + "px";
    tip.style.top = (y - h - 12 < 4 ? y + 16 : y - h - 12) + "px";
    svg.querySelectorAll(".cursor").forEach((node) => node.remove());
    svg.append(Charts.svg("circle", { cx: stop.x, cy: stop.y, r: 6, class: "cursor" }));
  }
  function hide(svg) {
    tip.style.visibility = "hidden";
    if (svg) svg.querySelectorAll(".cursor").forEach((node) => node.remove());
  }

  function listen(svg, stops, select, name) {
    let at = -1;
    const nearest = (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = -1, least = 3600; // pixels squared: a stop further than 60 px away is not meant
      stops.forEach((s, i) => {
        const [x0, y0, x1, y1] = s.box || [s.x, s.y, s.x, s.y]; // a bar or a cell is met anywhere in its box
        const d = Math.max(x0 - x, 0, x - x1) ** 2 + Math.max(y0 - y, 0, y - y1) ** 2;
        if (d < least) { least = d; best = i; }
      });
      return best;
    };
    svg.addEventListener("pointermove", (event) => { at = nearest(event); if (at >= 0) show(stops[at], svg); else hide(svg); });
    svg.addEventListener("pointerleave", () => hide(svg));
    svg.addEventListener("blur", () => hide(svg));
    const choose = () => { if (select && at >= 0 && stops[at].key !== undefined) pick(select, chosen[select] === stops[at].key ? null : stops[at].key); };
    if (select) { svg.setAttribute("data-clicks", ""); svg.addEventListener("click", (event) => { at = nearest(event); choose(); }); }
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by && stops.length) {
        at = at < 0 ? (by > 0 ? 0 : stops.length - 1) : (at + by + stops.length) % stops.length;
        show(stops[at], svg);
        live.textContent = stops[at].tip;
      } else if (event.key === "Enter") choose();
      else if (event.key === "Escape") { hide(svg); return; }
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${name}. Arrow keys read its values; a table follows.`);
  }

  // figures

  function current(chart) { // the chart as the selection wants it
    if (!chart.by) return chart;
    const index = chosen[chart.by];
    const view = index === null ? chart.none : chart.views[index];
    return { ...chart, ...(view || chart.none || chart.views[0]) };
  }

  function draw(figure) {
    const spec = current(figure.chart), picked = spec.select ? chosen[spec.select] : null;
    const width = Math.max(Math.floor(figure.node.clientWidth), 240);
    if (figure.svg && figure.width === width && figure.seen === JSON.stringify(chosen)) return;
    Object.assign(figure, { width, seen: JSON.stringify(chosen), spec });
    const focused = figure.svg && document.activeElement === figure.svg;
    const { root, stops } = Charts.draw[spec.kind](spec, width, picked);
    figure.heading.textContent = spec.title;
    figure.caption.textContent = spec.caption || "";
    figure.svg ? figure.svg.replaceWith(root) : figure.chips.after(root);
    figure.svg = root;
    listen(root, stops, spec.select, spec.title);
    if (focused) root.focus({ preventScroll: true });
    chips(figure, spec, picked);
    if (figure.details.open) fill(figure);
  }

  function chips(figure, spec, picked) { // a legend that selects
    const series = spec.legend || (spec.kind === "heat" ? [] : (spec.series || []).filter((s) => s.key !== undefined && s.name));
    const had = figure.chips.contains(document.activeElement) ? [...figure.chips.children].indexOf(document.activeElement) : -1;
    figure.chips.replaceChildren();
    if (!(spec.select || spec.show) || series.length < 2) return;
    for (const s of series) {
      const swatch = Charts.svg("svg", { viewBox: "0 0 18 12", "aria-hidden": "true" });
      swatch.append(Charts.svg("path", { d: "M0,6H18", class: "line " + Charts.colour(s.key), "stroke-dasharray": Charts.dash(s.key) }), Charts.shape(s.key, 9, 6, 4));
      if (!spec.select) { // a legend only
        figure.chips.append(html("span", { class: "chip" }, swatch, s.name));
        continue;
      }
      const button = html("button", { type: "button", "aria-pressed": String(picked === s.key), title: s.name }, swatch, html("span", {}, s.name));
      button.addEventListener("click", () => pick(spec.select, chosen[spec.select] === s.key ? null : s.key));
      figure.chips.append(button);
    }
    if (had >= 0 && figure.chips.children[had]) figure.chips.children[had].focus({ preventScroll: true });
  }

  function fill(figure) {
    const { columns, rows } = figure.spec;
    const table = html("table", {}, html("caption", {}, figure.spec.title), html("thead", {}, html("tr", {}, ...columns.map((c) => html("th", { scope: "col" }, c)))));
    const cell = (v) => html("td", { class: typeof v === "number" ? "num" : null }, typeof v === "number" ? Charts.number(v, 5) : v === null ? "–" : String(v));
    table.append(html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map(cell)))));
    figure.box.replaceChildren(table);
  }

  // downloads

  function hand(blob, name) {
    const link = html("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 5000);
  }
  const file = (figure, ending) => figure.spec.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60).toLowerCase() + "." + ending;

  function csv(figure) {
    const quote = (v) => {
      const text = v === null ? "" : String(v);
      return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    const { columns, rows } = figure.spec;
    hand(new Blob(["\ufeff" + [columns, ...rows].map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n"], { type: "text/csv" }), file(figure, "csv"));
  }

  function alone(figure) { // the drawing with its computed style written into it, so that it stands without this page
    const copy = figure.svg.cloneNode(true), from = [figure.svg, ...figure.svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "opacity", "font-family", "font-size", "font-weight", "paint-order"])
        to[i].setAttribute(name, style.getPropertyValue(name));
      to[i].removeAttribute("class");
    });
    const paper = getComputedStyle(document.body).backgroundColor;
    copy.prepend(Charts.svg("rect", { width: "100%", height: "100%", fill: paper }));
    return new XMLSerializer().serializeToString(copy);
  }

  function png(figure) {
    const image = new Image(), box = figure.svg.viewBox.baseVal;
    image.onload = () => {
      const canvas = html("canvas", { width: box.width * 2, height: box.height * 2 });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => hand(blob, file(figure, "png")));
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(alone(figure));
  }

  function build(node) {
    const figure = { node, chart: data.charts[node.dataset.chart] };
    figure.heading = html("h3", {});
    figure.chips = html("div", { class: "chips", role: "group", "aria-label": "highlight" });
    figure.caption = html("figcaption", {});
    figure.box = html("div", { class: "box tall", tabindex: "0" });
    figure.details = html("details", {}, html("summary", {}, "table of values"), figure.box);
    figure.details.addEventListener("toggle", () => { if (figure.details.open) fill(figure); });
    const button = (text, act) => {
      const b = html("button", { type: "button", "aria-label": `download ${text}` }, text);
      b.addEventListener("click", () => act(figure));
      return b;
    };
    const vector = (f) => hand(new Blob([alone(f)], { type: "image/svg+xml" }), file(f, "svg"));
    node.replaceChildren(figure.heading, figure.chips, figure.caption, html("div", { class: "tools" }, button("csv", csv), button("svg", vector), button("png", png), figure.details));
    figures.push(figure);
    draw(figure);
  }

  function refresh() {
    for (const p of picks) {
      const c = controls[p.key], i = chosen[p.key];
      if (c) c.value = c.tagName === "SELECT" ? (i === null ? "" : String(i)) : i === null ? "" : p.items[i];
    }
    hide();
    figures.forEach(draw);
    document.querySelectorAll("[data-rows-of]").forEach((table) => { // rows of a table that belong to the selected item
      const want = chosen[table.dataset.rowsOf];
      for (const row of table.tBodies[0].rows) row.hidden = want !== null && row.dataset.key !== String(want);
    });
  }

  selectors();
  document.querySelectorAll("figure[data-chart]").forEach(build);
  read();
  addEventListener("hashchange", read);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures.forEach((f) => { f.width = 0; draw(f); }));
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { hide(); figures.forEach(draw); }); });
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") { if (picks.length) { step(event.key === "ArrowRight" ? 1 : -1); event.preventDefault(); } }
    else if (event.key === "Escape") { for (const p of picks) chosen[p.key] = null; if (picks.length) pick(last, null); }
  });
  document.documentElement.dataset.ready = "yes";
})();
