"use strict";
// The threshold control of a report: looks up what was counted at each stop, and writes it.
const at = (id) => document.getElementById(id);
const found = JSON.parse(at("control").dataset.control), stop = at("stop");
const pairs = document.querySelector("svg.scores");

function daily(far) {
  const many = far * Number(at("comparisons").value || 0);
  return many === 0 ? "none" : many < 10 ? String(Number(many.toPrecision(2))) : Math.round(many).toLocaleString("en");
}

function promise(here) {
  if (found.words[here]) return `promised: ${found.words[here]}`;
  const kept = found.promised.filter(([, threshold]) => found.sets[0].thresholds[here] >= threshold);
  return "measured here, not promised" + (kept.length ? `; stricter than the threshold promised for ${kept.at(-1)[0]}` : "");
}

function cell(text, bounds) {
  const small = Object.assign(document.createElement("small"), { textContent: bounds });
  return [text, small];
}

function show() {
  const here = Number(stop.value), lead = found.sets[0], size = at("people").value;
  const said = `Threshold ${lead.shown[here]}, ${promise(here)}`;
  at("stop-said").textContent = said + ".";
  stop.setAttribute("aria-valuetext", said);
  for (const preset of document.querySelectorAll(".presets button")) preset.setAttribute("aria-pressed", String(Number(preset.value) === here));
  for (const box of document.querySelectorAll("[data-set]")) {
    const set = found.sets[box.dataset.set], sizes = set.fpir[size];
    box.querySelector(".at").textContent = set === lead ? `Threshold ${set.shown[here]}.` : `Threshold ${set.shown[here]}, ` +
      (set.covered && found.promises[here] ? "the same." : `at the FAR of ${lead.title}.`);
    set.pools.forEach((stops, row) => {
      const [tar, tars, far, fars, rate, low, high] = stops[here];
      const [, ...cells] = box.querySelectorAll("tbody tr")[row].cells;
      cells[0].replaceChildren(...cell(tar, tars));
      cells[1].replaceChildren(...cell(far, fars));
      cells[2].replaceChildren(...cell(daily(rate), `${daily(low)} to ${daily(high)}`));
    });
    box.querySelector(".fpir").textContent = sizes ? `In a gallery of ${Number(size).toLocaleString("en")} people, strangers who are found (FPIR): ${sizes[here]}.`
      : `The set has too few people for a gallery of ${Number(size).toLocaleString("en")}.`;
  }
  const { low, high } = pairs.dataset, width = pairs.viewBox.baseVal.width;
  const x = Math.min(Math.max((lead.thresholds[here] - low) / (high - low), 0), 1) * width;
  pairs.querySelector(".threshold").setAttribute("transform", `translate(${x} 0)`);
  for (const [id, from, wide] of [["wrong-strangers", x, width - x], ["wrong-same", 0, x]]) {
    at(id).firstChild.setAttribute("x", from);
    at(id).firstChild.setAttribute("width", wide);
  }
}

for (const id of ["stop", "comparisons", "people"]) at(id).addEventListener("input", show);
for (const preset of document.querySelectorAll(".presets button")) preset.addEventListener("click", () => { stop.value = preset.value; show(); });
show();
