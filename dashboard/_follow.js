// Asks the server for the store's version, and has the page drawn again when it is another one.

const running = new WeakMap(); // of each place on the page, how to end its questions

let touched = -Infinity; // when somebody last clicked or typed: until it is sent, the script seems to rest
for (const kind of ["pointerdown", "pointerup", "keydown", "change"]) {
  document.addEventListener(kind, () => (touched = performance.now()), true);
}

export default function ({ data, parentElement, setTriggerValue }) {
  running.get(parentElement)?.();
  const begun = performance.now();
  let timer;
  let ended = false;

  const later = (milliseconds) => {
    if (!ended) timer = setTimeout(look, milliseconds);
  };

  // A redraw that is asked for while the script runs cuts that run short, and with it what a click has begun:
  // its callback ends where it next looks at the state of the session. And a server that has just come back
  // answers before the page's own connection to it stands again.
  const free = () => {
    const app = document.querySelector("[data-test-script-state]");
    const { testScriptState, testConnectionState } = app?.dataset ?? {};
    return (
      !app ||
      (testScriptState === "notRunning" &&
        testConnectionState === "CONNECTED" &&
        performance.now() - touched > 400)
    );
  };

  const redraw = () => {
    if (!free()) return later(data.every);
    setTriggerValue("moved", data.drawn);
    later(5000); // where that rerun failed
  };

  const look = async () => {
    if (document.hidden) return later(data.every);
    if (data.again !== null && performance.now() - begun >= data.again) return redraw();
    try {
      const answer = await fetch(data.path, { cache: "no-store" });
      if (ended) return;
      const { version } = await answer.json();
      if (version !== null && version !== data.version) return redraw();
    } catch {
      return later(3000); // the server is away: the page itself says so
    }
    later(data.every);
  };

  const end = () => {
    ended = true;
    clearTimeout(timer);
  };
  running.set(parentElement, end);
  later(data.first);
  return end;
}
