"use strict";
// The threshold control of a report: looks up what was counted at each stop, and writes it.
const at = (id) => document.getElementById(id);
const found = JSON.parse(at("control").dataset.control), stop = at("stop"), day = at("comparisons");
const picture = document.querySelector("svg.scores");

function daily(far) {
  const many = far * Number(day.value);
  return many === 0 ? "none" : many < 10 ? String(Number(many.toPrecision(2))) : Math.round(many).toLocaleString("en");
}

function cell(text, bounds) {
  const small = Object.assign(document.createElement("small"), { textContent: bounds });
  return [text, small];
}

function show() {
  const here = Number(stop.value), lead = found.sets[0], size = at("people").value;
  const among = `a gallery of ${Number(size).toLocaleString("en")} people`, counted = day.checkValidity();
  at("stop-said").textContent = found.said[here];
  stop.setAttribute("aria-valuetext", found.said[here]);
  at("wrong").textContent = found.wrong[here];
  picture.setAttribute("aria-label", found.wrong[here]);
  at("comparisons-wrong").textContent = counted ? "" : "The comparisons of a day are a whole number of at least 1.";
  day.setAttribute("aria-invalid", String(!counted));
  for (const preset of document.querySelectorAll(".presets button")) preset.setAttribute("aria-pressed", String(Number(preset.value) === here));
  for (const box of document.querySelectorAll("[data-set]")) {
    const set = found.sets[box.dataset.set], sizes = set.fpir[size];
    box.querySelector(".at").textContent = set.at[here];
    set.pools.forEach((stops, row) => {
      const [tar, tars, far, fars, rate, low, high] = stops[here];
      const [, ...cells] = box.querySelectorAll("tbody tr")[row].cells;
      cells[0].replaceChildren(...cell(tar, tars));
      cells[1].replaceChildren(...cell(far, fars));
      cells[2].replaceChildren(...(counted ? cell(daily(rate), `${daily(low)} to ${daily(high)}`) : ["\u2013"]));
    });
    box.querySelector(".fpir").textContent = sizes ? `In ${among}, strangers who are found (FPIR): ${sizes[here]}.`
      : `The set has too few people for ${among}.`;
  }
  const { low, high } = picture.dataset, width = picture.viewBox.baseVal.width;
  const x = Math.min(Math.max((lead.thresholds[here] - low) / (high - low), 0), 1) * width;
  picture.querySelector(".threshold").setAttribute("transform", `translate(${x} 0)`);
  for (const [id, from, wide] of [["wrong-strangers", x, width - x], ["wrong-same", 0, x]]) {
    at(id).firstChild.setAttribute("x", from);
    at(id).firstChild.setAttribute("width", wide);
  }
}

for (const id of ["stop", "comparisons", "people"]) at(id).addEventListener("input", show);
for (const preset of document.querySelectorAll(".presets button")) preset.addEventListener("click", () => { stop.value = preset.value; show(); });
show();
