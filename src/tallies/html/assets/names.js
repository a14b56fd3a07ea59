"use strict";
// Names that a reader gives to the items of a selector, which are kept in the address; and one search over items, words and texts.
const Names = (() => {
  const given = {}; // given[key][index]: the new name
  let picks = [], old = null; // selectors whose items can be renamed; texts of the page that hold a name, as they were written

  function begin(all) {
    picks = all.filter((p) => p.edit);
    for (const p of picks) given[p.key] = {};
  }
  const name = (p, i) => (given[p.key] && given[p.key][i]) || p.items[i];
  function give(p, i, text) {
    if (text && text !== p.items[i]) given[p.key][i] = text;
    else delete given[p.key][i];
  }
  const changed = () => picks.flatMap((p) => Object.entries(given[p.key]).map(([i, text]) => [p.key, p.items[i], text, i]));

  // in the address: topic.3=Weather
  const parts = () => changed().map(([key, , text, i]) => `${encodeURIComponent(key)}.${i}=${encodeURIComponent(text)}`);
  function forget() { for (const p of picks) given[p.key] = {}; }
  function read(part, text) {
    const [, key, i] = part.match(/^(.+)\.(\d+)$/) || [], p = picks.find((q) => q.key === key);
    if (p && i < p.items.length) give(p, Number(i), text);
  }

  // a text, or all texts of a chart, with the new names in place of the old
  const pattern = (text) => new RegExp("(?<![0-9])" + text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "g"); // "1: x" is no part of "11: x"
  function tell(value, news = changed().map(([, was, now]) => [pattern(was), now])) {
    if (!news.length || value === null || typeof value === "number") return value;
    if (typeof value === "string") return news.reduce((text, [was, now]) => text.replace(was, () => now), value);
    if (Array.isArray(value)) return value.map((v) => tell(v, news));
    return typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, k === "key" ? v : tell(v, news)])) : value;
  }
  function retell() { // tables, tags and headings; figures are drawn anew
    if (old === null) {
      if (!changed().length) return;
      old = [];
      const any = new RegExp(picks.flatMap((p) => p.items.map((text) => pattern(text).source)).join("|"));
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) =>
        node.parentElement.closest("figure, form, script") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
      while (walk.nextNode()) if (any.test(walk.currentNode.data)) old.push([walk.currentNode, "data", walk.currentNode.data]);
      for (const mark of document.querySelectorAll("mark[title]")) old.push([mark, "title", mark.title]);
    }
    for (const [node, where, text] of old) node[where] = tell(text);
  }

  function search(form, what, all, html, pick) {
    const input = html("input", { id: "find", type: "search", placeholder: what.label, "aria-label": what.label, autocomplete: "off" });
    const list = html("ul", { class: "found", "aria-live": "polite" }), p = all.find((q) => q.key === what.pick) || { key: what.pick, items: [] };
    const texts = () => [...document.querySelectorAll(".passages > ul > li")];
    const open = (item, typed) => {
      if (p.items.length) pick(p.key, Number(item.dataset.keys.split(" ")[0]));
      const box = item.closest(".passages").querySelector("input");
      if (box) { box.value = typed; box.dispatchEvent(new Event("input")); }
      item.hidden = false;
      item.scrollIntoView({ block: "center" });
    };
    function look() {
      const typed = input.value.trim(), want = typed.toLowerCase(), found = [];
      list.replaceChildren();
      if (!want) return;
      const has = (text) => text.toLowerCase().includes(want);
      p.items.forEach((_, i) => { if (has(name(p, i))) found.push([p.key, name(p, i), () => pick(p.key, i)]); });
      const near = (word) => (word === want ? 0 : word.startsWith(want) ? 1 : 2), words = what.words.map((word, v) => [word, v]).filter(([word]) => has(word));
      for (const [word, v] of words.sort((a, b) => near(a[0]) - near(b[0])).slice(0, 8)) {
        const k = what.keys[v];
        found.push(["word", p.items.length ? `${word} → ${name(p, k)}` : word, () => { if (p.items.length) pick(p.key, k); }]);
      }
      for (const item of texts().filter((node) => has(node.textContent)).slice(0, 8)) found.push(["document", item.querySelector("h4").textContent, () => open(item, typed)]);
      if (!found.length) list.append(html("li", { class: "soft" }, `Nothing found for “${typed}”; what is selected stays.`));
      for (const [kind, text, act] of found.slice(0, 20)) {
        const button = html("button", { type: "button" }, html("i", {}, kind), " ", text);
        button.addEventListener("click", () => { list.replaceChildren(); input.value = ""; act(); });
        list.append(html("li", {}, button));
      }
    }
    input.addEventListener("input", look);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { const first = list.querySelector("button"); if (first) first.click(); event.preventDefault(); }
      else if (event.key === "Escape") { input.value = ""; look(); event.stopPropagation(); }
    });
    form.append(html("span", { class: "pick find" }, html("label", { for: "find" }, "Search"), input, list));
  }

  return { begin, name, give, given, parts, forget, read, tell, retell, search };
})();
