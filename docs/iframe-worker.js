// Search runs in a web worker, which browsers refuse to pages that are opened from a folder (file:). For those, this
// stands in for a worker: it runs the same script in a hidden frame.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      this.listen = (event) => {
        if (event.source !== inner) return;
        const answer = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(answer);
        if (this.onmessage) this.onmessage(answer);
      };
      addEventListener("message", this.listen);
      inner.document.open();
      inner.document.write("<!doctype html><body></body>");
      inner.document.close();
      const prepare = inner.document.createElement("script");
      prepare.textContent = `
        postMessage = (data) => parent.postMessage(data, "*");
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
          const script = document.createElement("script");
          Object.assign(script, { src: url, onload: done, onerror: failed });
          document.body.appendChild(script);
        })), Promise.resolve());`;
      inner.document.body.appendChild(prepare);
      this.ready = new Promise((done) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: String(url), onload: done });
        inner.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => {
        const inner = this.frame.contentWindow;
        inner.dispatchEvent(new inner.MessageEvent("message", { data: structuredClone(data) }));
      });
    }

    terminate() {
      removeEventListener("message", this.listen);
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
