"use strict";
const trace = JSON.parse(document.getElementById("trace").textContent);
const slider = document.getElementById("step");
const button = document.getElementById("play");
const where = document.getElementById("where");
const last = trace.moments.length - 1;
let timer = null;

const boxes = (last < 0 ? [] : trace.moments[0].cells).map(() => {
  const box = document.createElement("div");
  box.className = "sequence";
  document.getElementById("sequences").append(box);
  return box;
});

/* The cells of a sequence after `step` steps: the differences from the start on, one over the other. */
function cellsAt(step, sequence) {
  const cells = [];
  for (let k = 0; k <= step; k++) {
    for (const [at, text, kind] of trace.moments[k].cells[sequence]) cells[at] = { text, kind };
  }
  return cells;
}

function draw(step) {
  const { t, nfe, changed } = trace.moments[step];
  where.textContent = `step ${step} of ${last}, t = ${t.toFixed(4)}, ${nfe} evaluations`;
  boxes.forEach((box, sequence) => {
    const fresh = new Set(changed[sequence]);
    const cells = cellsAt(step, sequence);
    // A character of several positions stands at its first: new if any of them is.
    for (let i = cells.length - 1; i > 0; i--) {
      if (cells[i].text === "" && fresh.has(i)) fresh.add(i - 1);
    }
    const parts = [];
    cells.forEach(({ text, kind }, at) => {
      if (at > 0 && trace.separator) parts.push(trace.separator);
      if (text === "") return;
      const span = document.createElement("span");
      span.className = fresh.has(at) ? `${kind} changed` : kind;
      span.title = `position ${at}`;
      if (kind !== "masked") span.textContent = text;
      parts.push(span);
    });
    box.replaceChildren(...parts);
  });
}

function stop() {
  clearInterval(timer);
  timer = null;
  button.textContent = "Play";
}

function go(step) {
  slider.value = step;
  draw(step);
}

button.addEventListener("click", () => {
  if (timer !== null) return stop();
  if (Number(slider.value) === last) go(0);
  button.textContent = "Pause";
  timer = setInterval(() => {
    go(Number(slider.value) + 1);
    if (Number(slider.value) === last) stop();
  }, Math.min(700, Math.max(40, 6000 / last)));
});
slider.addEventListener("input", () => {
  stop();
  draw(Number(slider.value));
});

if (last >= 0) {
  slider.max = last;
  document.getElementById("controls").hidden = false;
  /* page.html#5 opens at step 5. */
  go(Math.min(last, Math.max(0, parseInt(location.hash.slice(1), 10) || 0)));
}
