"use strict";
// The page: what is selected (kept in the address, so that a view can be sent as a link), figures with their tools, one tooltip.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const picks = data.picks; // [{key, label, items}]
  const chosen = Object.fromEntries(picks.map((p) => [p.key, null]));
  Names.begin(picks);
  let last = picks.length ? picks[0].key : null; // the selector that arrow keys step
  const slides = {}; // sliders by key; null: untouched
  for (const c of data.charts) for (const view of [c, c.none, ...(c.views || [])]) if (view && view.slide) slides[view.slide.key] = null;
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
    address();
    refresh();
    if (tell) live.textContent = index === null ? `${key}: ${picks.find((p) => p.key === key).none}` : `${key}: ${Names.name(picks.find((p) => p.key === key), index)}`;
  }

  function address() {
    const parts = picks.filter((p) => chosen[p.key] !== null).map((p) => `${encodeURIComponent(p.key)}=${encodeURIComponent(p.items[chosen[p.key]])}`);
    for (const key of Object.keys(slides)) if (slides[key] !== null) parts.push(`${key}=${slides[key]}`);
    parts.push(...Names.parts());
    history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname + location.search);
  }

  function read() { // the selection that the address names; plain anchors are left to the browser
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) return;
    for (const p of picks) chosen[p.key] = null;
    Names.forget();
    for (const part of hash.split("&")) {
      const [key, value] = part.split("=").map(decodeURIComponent);
      const p = picks.find((q) => q.key === key), index = p ? p.items.indexOf(value) : -1;
      if (index >= 0) chosen[key] = index;
      if (key in slides && Number(value) >= 0 && Number(value) <= 1) slides[key] = Number(value);
      Names.read(key, value);
    }
    refresh();
  }

  function step(by) {
    if (last === null) return;
    const n = items(last).length, now = chosen[last];
    pick(last, now === null ? (by > 0 ? 0 : n - 1) : (now + by + n) % n);
  }

  const controls = {}, renames = {};
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
          const text = control.value.trim().toLowerCase(), lower = p.items.map((_, i) => Names.name(p, i).toLowerCase());
          const exact = lower.indexOf(text), index = exact >= 0 ? exact : lower.findIndex((t) => t.includes(text));
          control.setCustomValidity(index < 0 ? `nothing found for “${control.value}”` : "");
          if (index < 0) { control.reportValidity(); live.textContent = control.validationMessage; } // and what is selected stays
          else pick(p.key, text === "" ? null : index);
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
      if (p.edit) {
        const box = html("input", { id: id + "-name", class: "rename", type: "text", maxlength: 80, placeholder: `name this ${p.key}`, "aria-label": `name of this ${p.key}` });
        box.addEventListener("change", () => { Names.give(p, chosen[p.key], box.value.trim()); address(); refresh(); });
        renames[p.key] = box;
        form.lastChild.append(box);
      }
    }
    if (data.find) Names.search(form, data.find, picks, html, pick);
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
    const view = (index === null ? chart.none : chart.views[index]) || chart.none || chart.views[0];
    return view.by ? current(view) : { ...chart, ...view }; // a view may follow another selector
  }

  // words by relevance: weight log p(word | topic) + (1 - weight) log (p(word | topic) / p(word)), as bars of tokens
  function ranked(spec) {
    const weight = slides[spec.slide.key] === null ? spec.slide.value : slides[spec.slide.key];
    const score = spec.words.map((_, i) => Math.log(spec.inside[i]) - (1 - weight) * Math.log(spec.all[i]));
    const order = score.map((_, i) => i).sort((a, b) => score[b] - score[a]).slice(0, spec.most);
    const of = (values) => order.map((i) => values[i]);
    return { ...spec, kind: "bars", labels: of(spec.words), series: [{ name: "", values: of(spec.inside), colour: spec.colour }], behind: { name: spec.behindName, values: of(spec.all) },
      rows: order.map((i) => [spec.words[i], spec.inside[i], spec.all[i]]) };
  }

  function slider(figure, slide) {
    const id = "slide-" + slide.key, value = slides[slide.key] === null ? slide.value : slides[slide.key];
    if (!figure.slider) {
      const input = html("input", { id, type: "range", min: 0, max: 1, step: 0.05 }), output = html("output", { for: id });
      input.addEventListener("input", () => { slides[slide.key] = Number(input.value); address(); refresh(); });
      figure.slider = html("div", { class: "slide" }, html("label", { for: id }, slide.label), input, output);
      figure.chips.after(figure.slider);
    }
    figure.slider.children[1].value = value;
    figure.slider.children[2].textContent = `${value.toFixed(2)} – ${slide.means[value < 0.35 ? 0 : value < 0.75 ? 1 : 2]}`;
  }

  const widthOf = (figure) => (document.documentElement.dataset.paper ? 680 : Math.max(Math.floor(figure.node.clientWidth), 240)); // or that of a sheet

  // all widths are read before the first drawing: after one, the browser would lay out the whole page to know the next
  const drawAll = () => figures.map(widthOf).forEach((width, i) => draw(figures[i], width));

  function draw(figure, width = widthOf(figure)) {
    let spec = Names.tell(current(figure.chart));
    if (figure.slider) figure.slider.hidden = !spec.slide;
    if (spec.slide) {
      slider(figure, spec.slide);
      spec = ranked(spec);
    }
    const picked = spec.select ? chosen[spec.select] : null, now = JSON.stringify([chosen, slides, Names.given]);
    if (figure.svg && figure.width === width && figure.seen === now && figure.drawn === figure.zoomed) return;
    if (!spec.rows) spec.rows = spec.values.map((row, i) => [spec.down[i], ...row]); // a large matrix is in the page once
    Object.assign(figure, { width, seen: now, spec, drawn: figure.zoomed });
    figure.zoom.hidden = !Charts.zooms(spec);
    const focused = figure.svg && document.activeElement === figure.svg;
    const { root, stops } = Charts.draw[spec.kind](spec, width, picked, figure.zoomed);
    figure.heading.textContent = spec.title;
    figure.caption.textContent = spec.caption || "";
    figure.plot.replaceChildren(root);
    const wide = root.viewBox.baseVal.width > width + 1;
    figure.plot.classList.toggle("wider", wide);
    figure.plot.classList.toggle("zoomed", Boolean(figure.zoomed) && !figure.zoom.hidden);
    root.style.width = wide ? root.viewBox.baseVal.width + "px" : "";
    figure.svg = root;
    listen(root, stops, spec.select, spec.title);
    if (focused) root.focus({ preventScroll: true });
    chips(figure, spec, picked);
    if (figure.details.open) fill(figure);
  }

  const CHIPS = 60; // beyond so many nobody finds a name among them, or tells their marks apart: the box above searches

  function chips(figure, spec, picked) { // a legend that selects
    const series = spec.legend || (spec.kind === "heat" ? [] : (spec.series || []).filter((s) => s.key !== undefined && s.name));
    const had = figure.chips.contains(document.activeElement) ? [...figure.chips.children].indexOf(document.activeElement) : -1;
    figure.chips.replaceChildren();
    if (!(spec.select || spec.show) || series.length < 2 || series.length > CHIPS) return;
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
    sortable(table);
  }

  // tables are sorted by the column whose head is clicked: numbers from the largest down first, words from a to z
  const value = (cell) => {
    const text = cell ? cell.textContent.trim().replace(/^±\s*/, "").replaceAll(",", "").replace("−", "-") : "";
    return /^[-+]?(\d|\.\d|inf)/.test(text) ? (text.startsWith("inf") ? Infinity : text.startsWith("-inf") ? -Infinity : parseFloat(text)) : null;
  };
  function sortable(table) {
    const body = table.tBodies[0], heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
    if (!body || body.rows.length < 2) return;
    heads.forEach((head, j) => {
      head.setAttribute("aria-sort", "none");
      head.setAttribute("tabindex", "0");
      const sort = () => {
        const rows = [...body.rows], found = rows.map((row) => value(row.cells[j])), words = rows.map((row) => row.cells[j].textContent.trim());
        const numbers = found.some((v) => v !== null) && words.every((text, i) => found[i] !== null || text === "–" || text === "");
        const before = head.getAttribute("aria-sort"), down = before === "none" ? numbers : before === "ascending";
        const order = rows.map((_, i) => i).sort((a, b) => {
          if (!numbers) return (down ? -1 : 1) * words[a].localeCompare(words[b], "en", { numeric: true });
          if (found[a] === null || found[b] === null) return (found[a] === null) - (found[b] === null); // gaps stay last
          return (down ? -1 : 1) * (found[a] - found[b] || a - b);
        });
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...order.map((i) => rows[i]));
        live.textContent = `sorted by ${head.textContent}, ${down ? "descending" : "ascending"}`;
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { sort(); event.preventDefault(); } });
    });
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
    figure.plot = html("div", {});
    figure.caption = html("figcaption", {});
    figure.box = html("div", { class: "box tall", tabindex: "0" });
    figure.details = html("details", {}, html("summary", {}, "table of values"), figure.box);
    figure.details.addEventListener("toggle", () => { if (figure.details.open) fill(figure); });
    const button = (text, act) => {
      const b = html("button", { type: "button", "aria-label": `download ${text}` }, text);
      b.addEventListener("click", () => act(figure));
      return b;
    };
    figure.zoom = html("button", { type: "button", "aria-pressed": "false" }, "zoom: all names");
    figure.zoom.addEventListener("click", () => { figure.zoomed = !figure.zoomed; figure.zoom.setAttribute("aria-pressed", String(figure.zoomed)); draw(figure); });
    const vector = (f) => hand(new Blob([alone(f)], { type: "image/svg+xml" }), file(f, "svg"));
    node.replaceChildren(figure.heading, figure.chips, figure.plot, figure.caption, html("div", { class: "tools" }, figure.zoom, button("csv", csv), button("svg", vector), button("png", png), figure.details));
    figures.push(figure);
  }

  function refresh() {
    for (const p of picks) {
      const c = controls[p.key], i = chosen[p.key];
      if (c) c.value = c.tagName === "SELECT" ? (i === null ? "" : String(i)) : i === null ? "" : Names.name(p, i);
      if (!p.edit || !c) continue;
      [...(c.tagName === "SELECT" ? [...c.options].slice(1) : c.list.options)].forEach((option, k) => { option[c.tagName === "SELECT" ? "textContent" : "value"] = Names.name(p, k); });
      renames[p.key].hidden = i === null;
      renames[p.key].value = i === null ? "" : Names.name(p, i);
    }
    hide();
    Names.retell();
    drawAll();
    document.querySelectorAll("[data-rows-of]").forEach((table) => { // rows of a table that belong to the selected item
      const want = chosen[table.dataset.rowsOf];
      for (const row of table.tBodies[0].rows) row.hidden = want !== null && row.dataset.key !== String(want);
    });
    document.querySelectorAll(".passages").forEach(passages);
    document.querySelectorAll("[data-pick]").forEach((node) => node.setAttribute("aria-pressed", String(chosen[node.dataset.pick] === Number(node.dataset.index))));
  }

  // texts: those of the selected item, and those that hold what was typed; only the first few are shown
  function passages(node) {
    const want = node.dataset.of in chosen ? chosen[node.dataset.of] : null, box = node.querySelector("input"), words = box ? box.value.trim().toLowerCase().split(/\s+/) : [];
    let met = 0;
    const shown = [];
    for (const item of node.querySelectorAll(":scope > ul > li")) {
      const text = words[0] ? item.textContent.toLowerCase() : "";
      const fits = (want === null || item.dataset.keys.split(" ").includes(String(want))) && words.every((w) => text.includes(w));
      met += fits;
      item.hidden = !fits || met > Number(node.dataset.most);
      if (!item.hidden) shown.push(item);
    }
    const nothing = words[0] ? `nothing found for “${box.value.trim()}”` : "nothing of what is selected";
    node.querySelector(".soft").textContent = !met ? nothing : met === shown.length ? `${met} shown` : `${shown.length} of ${met} shown; select or search to see others`;
  }
  function texts() {
    for (const node of document.querySelectorAll(".passages")) {
      const box = node.querySelector("input");
      if (!box) continue;
      box.addEventListener("input", () => { passages(node); live.textContent = node.querySelector(".soft").textContent; });
      box.addEventListener("keydown", (event) => { if (event.key === "Escape") { box.value = ""; passages(node); event.stopPropagation(); } });
    }
    document.addEventListener("click", (event) => {
      const node = event.target.closest("[data-pick]");
      if (!node || !(node.dataset.pick in chosen)) return;
      const index = Number(node.dataset.index);
      pick(node.dataset.pick, chosen[node.dataset.pick] === index ? null : index);
      event.preventDefault();
    });
  }

  selectors();
  document.querySelectorAll("figure[data-chart]").forEach(build);
  texts();
  document.querySelectorAll(".box > table").forEach(sortable);
  refresh();
  read();
  addEventListener("hashchange", read);
  const redraw = () => {
    for (const f of figures) f.width = 0;
    drawAll();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { document.documentElement.dataset.paper = "yes"; redraw(); }); // paper is white, whatever the screen
  addEventListener("afterprint", () => { delete document.documentElement.dataset.paper; redraw(); });
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { hide(); drawAll(); }); });
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") { if (picks.length) { step(event.key === "ArrowRight" ? 1 : -1); event.preventDefault(); } }
    else if (event.key === "Escape") { for (const p of picks) chosen[p.key] = null; for (const key of Object.keys(slides)) slides[key] = null; if (picks.length) pick(last, null); }
  });
  document.documentElement.dataset.ready = "yes";
})();
