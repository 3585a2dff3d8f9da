"use strict";
const at = (id) => document.getElementById(id);
const taken = {}; // pictures of the camera, by the input in whose place they stand
const task = () => document.querySelector("[name=task]:checked").value;
const FIELDS = {
  identify: { photograph: "first" }, verify: { left: "first", right: "second" },
  claim: { photograph: "first", person: "person" },
  enrol: { photograph: "first", person: "person", consent: "consent", expires: "expires", keep_image: "keep_image" },
};
const WORDS = {
  same: "Same person", unsure: "Unsure", different: "Different people", nobody: "Nobody who is enrolled",
  enrolled: "Enrolled", known: "Enrolled before", refused: "Not enrolled",
};

function choose() {
  for (const part of document.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").includes(task());
  at("second").required = task() === "verify";
  at("person").required = ["claim", "enrol"].includes(task());
}

function picture(id, file) {
  taken[id] = file;
  at(id).required = false;
  at(id + "-shown").src = URL.createObjectURL(file);
  at(id + "-shown").hidden = false;
}

async function camera(id) {
  const close = () => { at("video").srcObject?.getTracks().forEach((track) => track.stop()); at("camera").hidden = true; };
  close();
  try {
    at("video").srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "user" } });
  } catch {
    return show({ verdict: "The camera cannot be used", reasons: ["Allow it, or choose a file; away from this machine a browser needs https."] }, true);
  }
  at("camera").hidden = false;
  await at("video").play();
  at("close").onclick = close;
  at("take").onclick = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [at("video").videoWidth, at("video").videoHeight];
    canvas.getContext("2d").drawImage(at("video"), 0, 0);
    canvas.toBlob((blob) => { picture(id, new File([blob], "camera.jpg")); close(); at("ask").focus(); }, "image/jpeg", 0.95);
  };
  at("take").focus();
}

async function call(path, body) {
  const key = at("key").value, headers = key ? { Authorization: "Bearer " + key } : {};
  const response = await fetch(path, { method: body ? "POST" : "GET", body, headers });
  const answer = await response.json();
  if (response.status === 401) at("access").open = true;
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

async function ask(event) {
  event.preventDefault();
  const body = new FormData();
  for (const [name, id] of Object.entries(FIELDS[task()])) {
    const input = at(id), value = taken[id] ?? (input.type === "checkbox" ? input.checked : input.files?.[0] ?? input.value);
    if (value !== "") body.append(name, value);
  }
  at("ask").disabled = true;
  try {
    const answer = await call("v1/" + task(), body);
    show(answer, ["different", "refused"].includes(answer.verdict));
  } catch (error) {
    show({ verdict: "No answer", reasons: [error.message] }, true);
  }
  at("ask").disabled = false;
  about();
}

function show(answer, bad) {
  const people = answer.people ?? [], passing = people.filter((one) => one.passes).map((one) => one.person);
  at("verdict").textContent = passing.join(", ") || WORDS[answer.verdict] || answer.verdict;
  axis(answer);
  at("reasons").replaceChildren(...[...answer.reasons ?? [], ...answer.notes ?? []].map((text) => part("li", text)));
  at("people").hidden = !people.length;
  at("people").tBodies[0].replaceChildren(...people.map((one) => {
    const row = document.createElement("tr");
    row.append(part("th", one.person), part("td", one.score.toFixed(4)), part("td", one.passes ? "yes" : "no"));
    return row;
  }));
  at("rests").textContent = answer.promise ?? "";
  at("misses").textContent = answer.misses ? `In exact words: ${answer.misses}.` : "";
  at("answer").className = bad ? "bad" : "";
  at("answer").hidden = false;
  at("answer").focus();
}

function part(kind, text, className = "") {
  return Object.assign(document.createElement(kind), { textContent: text, className });
}

function axis({ score, threshold, unsure_from: unsure }) {
  at("axis").hidden = score == null;
  if (at("axis").hidden) return;
  const low = Math.min(0, score, unsure ?? 0, threshold) - 0.05, high = Math.max(1, score);
  const place = (value) => `${100 * (value - low) / (high - low)}%`;
  const put = (element, value) => { element.style.left = place(value); return element; };
  const inside = (value) => Math.min(Math.max(value, low + 0.12 * (high - low)), high - 0.12 * (high - low));
  const parts = [put(part("div", "", "passes"), threshold)];
  if (unsure != null) {
    parts.push(put(part("div", "", "unsure"), unsure));
    parts[1].style.right = `calc(100% - ${place(threshold)})`;
  }
  parts.push(put(part("div", "", "mark limit"), threshold), put(part("span", `threshold ${threshold.toFixed(4)}`, "under"), inside(threshold)));
  parts.push(put(part("div", "", "mark"), score), put(part("span", `score ${score.toFixed(4)}`, "over"), inside(score)));
  at("line").replaceChildren(...parts);
  const where = score > threshold ? "above" : unsure != null && score >= unsure ? "below, but in the unsure band under" : "not above";
  at("line").setAttribute("aria-label", `Score ${score.toFixed(4)}, ${where} the threshold ${threshold.toFixed(4)}`);
  at("caption").textContent = `Scores to the right of the threshold pass${unsure != null ? `; between ${unsure.toFixed(4)} and it nothing is decided` : ""}.`;
}

async function about() {
  try {
    const card = await call("v1/card");
    at("promise").textContent = card.gallery;
    at("tasks").querySelector("[value=enrol]").disabled = card.role === "read";
    at("tasks").querySelector("[value=verify]").disabled = !card.pair;
  } catch (error) {
    at("promise").textContent = error.message;
  }
}

at("tasks").addEventListener("change", choose);
at("form").addEventListener("submit", ask);
at("key").addEventListener("change", about);
for (const id of ["first", "second"]) {
  at(id).addEventListener("change", () => at(id).files[0] && picture(id, at(id).files[0]));
  document.querySelector(`[data-camera=${id}]`).addEventListener("click", () => camera(id));
}
choose();
about();
