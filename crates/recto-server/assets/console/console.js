// This file adds keyboard shortcuts, and restores focus, scroll position and open panels after htmx
// replaces a page. The console works without it.
"use strict";

(() => {
  document.documentElement.classList.add("scripted");

  const find = (selector) => document.querySelector(selector);
  const rows = () => Array.from(document.querySelectorAll("a.row"));
  const PLAN_OPEN = "recto.plan-open";

  /** Follows the link that a key stands for, if the page has one. */
  function follow(key) {
    find(`a[data-key="${key}"]`)?.click();
  }

  /** Moves the focus to the row that is `step` rows away. */
  function moveRow(step) {
    const all = rows();
    if (all.length === 0) return;
    const at = all.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1);
    all[next].focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  }

  function openFilter() {
    const panel = find("#open-filter")?.parentElement;
    const pin = find(".pin input:not([type=hidden])");
    if (!panel) {
      pin?.focus();
      return;
    }
    panel.open = true;
    panel.querySelector("input:not([type=hidden])")?.focus();
  }

  function togglePlan() {
    const plan = find("#plan");
    if (plan) plan.open = !plan.open;
  }

  const KEYS = {
    n: () => follow("n"),
    p: () => follow("p"),
    f: () => follow("f"),
    l: () => follow("l"),
    u: () => (find('a[data-key="u"]') ? follow("u") : find(".bar nav a:last-of-type")?.click()),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    g: () => find("#jump")?.focus(),
    x: togglePlan,
    "/": openFilter,
    "?": () => find("#keys")?.showModal(),
  };

  function closePanels(but) {
    for (const panel of document.querySelectorAll("details.pop[open]:not(.inline)")) {
      if (panel !== but) panel.open = false;
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      const panel = event.target.closest?.("details.pop[open]:not(.inline)");
      closePanels();
      panel?.querySelector("summary").focus();
      return;
    }
    const typing = event.target.closest?.("input, textarea, select, dialog");
    const action = KEYS[event.key];
    if (!action || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });

  document.addEventListener("click", (event) => {
    closePanels(event.target.closest("details.pop"));
    const opens = event.target.closest("[data-open]");
    if (opens) document.getElementById(opens.dataset.open)?.showModal();
  });

  document.addEventListener("toggle", (event) => {
    if (event.target.id === "plan") sessionStorage.setItem(PLAN_OPEN, event.target.open ? "yes" : "");
  }, true);

  /** Largest share of the table's width that pinned key columns use. */
  const PINNED_SHARE = 0.5;

  /** Pins as many key columns as fit into PINNED_SHARE of the width. The first column always stays. */
  function pinKey(region) {
    for (const cell of region.querySelectorAll(".pinned, .last-pinned")) cell.classList.remove("pinned", "last-pinned");
    const heads = Array.from(region.querySelectorAll("thead th"));
    const room = region.clientWidth * PINNED_SHARE;
    const width = (head) => head?.getBoundingClientRect().width ?? 0;
    let left = width(heads[0]);
    let last = 0;
    for (let at = 1; at < heads.length && heads[at].classList.contains("key"); at += 1) {
      if (left + width(heads[at]) > room) break;
      for (const row of region.querySelectorAll("tr")) {
        row.cells[at].classList.add("pinned");
        // Round down, so that adjacent pinned columns overlap. Through a gap, the cells behind them
        // would be visible.
        row.cells[at].style.setProperty("--left", `${Math.floor(left)}px`);
      }
      left += width(heads[at]);
      last = at;
    }
    for (const row of region.querySelectorAll("tr")) row.cells[last]?.classList.add("last-pinned");
  }

  /** Marks whether columns are hidden to the right, and whether some are hidden to the left. */
  function markEdges(region) {
    region.classList.toggle("scrolled", region.scrollLeft > 0);
    region.classList.toggle("more", region.scrollLeft + region.clientWidth < region.scrollWidth - 1);
  }

  /** Horizontal scroll position of the table, which the next page of the same collection restores. */
  let sideways = { path: "", left: 0 };

  function arrange() {
    const region = find("#rows");
    if (!region) return;
    pinKey(region);
    region.scrollTo(sideways.path === location.pathname ? sideways.left : 0, 0);
    markEdges(region);
    region.addEventListener("scroll", () => {
      sideways = { path: location.pathname, left: region.scrollLeft };
      markEdges(region);
    });
  }

  window.addEventListener("resize", () => {
    const region = find("#rows");
    if (!region) return;
    pinKey(region);
    markEdges(region);
  });

  const ROWS_OPENED = "recto.rows-opened";
  /** Maximum number of opened rows to remember. */
  const MAX_ROWS_OPENED = 8;
  const rowsOpened = () => JSON.parse(sessionStorage.getItem(ROWS_OPENED) ?? "[]");
  const address = (row) => row.getAttribute("href");

  document.addEventListener("click", (event) => {
    const row = event.target.closest("a.row");
    if (!row) return;
    const others = rowsOpened().filter((opened) => opened !== address(row));
    sessionStorage.setItem(ROWS_OPENED, JSON.stringify([address(row), ...others].slice(0, MAX_ROWS_OPENED)));
  });

  /** Focuses the row that was last opened from this page, so that keyboard navigation continues there. */
  function returnToRow() {
    if (document.activeElement !== document.body) return;
    const opened = rowsOpened();
    const here = new Map(rows().map((row) => [address(row), row]));
    const last = opened.find((one) => here.has(one));
    if (!last) return;
    sessionStorage.setItem(ROWS_OPENED, JSON.stringify(opened.filter((one) => one !== last)));
    here.get(last).focus({ preventScroll: true });
    here.get(last).scrollIntoView({ block: "nearest" });
  }

  // A click anywhere in a row opens the row, unless the click is on a link or the user selects
  // text.
  document.addEventListener("click", (event) => {
    const row = event.target.closest("#rows tbody tr");
    if (!row || event.target.closest("a") || !window.getSelection().isCollapsed) return;
    row.querySelector("a.row")?.click();
  });

  /** Restores the state of the plan on a new page, and announces the page to screen readers. */
  function arrive(isFirst) {
    const plan = find("#plan");
    if (plan && sessionStorage.getItem(PLAN_OPEN)) plan.open = true;
    const page = new URL(location.href);
    if (page.searchParams.has("done")) {
      // Remove `done` from the address, so that a shared or reloaded page does not report the
      // action again.
      page.searchParams.delete("done");
      history.replaceState(history.state, "", page);
    }
    returnToRow();
    const summary = find("#plan summary span");
    const news = find(".problem h2, .empty h2, #partitions h3") ?? summary;
    if (!isFirst && news) find("#status").textContent = news.textContent;
  }

  // If the server does not answer a periodic refresh, keep the old content and mark it as stale.
  const asksAgain = (one) => one.matches?.("[hx-trigger^='every']");
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { requestConfig, xhr, target } = event.detail;
    if (!asksAgain(requestConfig.elt) || xhr.status < 400) return;
    event.detail.shouldSwap = false;
    target.classList.add("stale");
  });
  document.addEventListener("htmx:sendError", (event) => {
    if (asksAgain(event.target)) event.detail.target.classList.add("stale");
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    // Skip the number of rows, which arrives after its page and replaces no part of the table.
    if (event.target.closest(".place")) return;
    arrange();
    arrive(false);
  });
  arrange();
  arrive(true);
})();
