// Browsers start no worker for a page that is opened from disk; there the search runs in a hidden frame instead.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.tell(data);
      inside.importScripts = () => {}; // only other languages than English would need more scripts
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => { this.ready = true; this.waiting.splice(0).forEach((data) => this.postMessage(data)); };
      inside.document.body.append(script);
    }
    tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
    postMessage(data) {
      if (!this.ready) return void this.waiting.push(data);
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
    terminate() { this.frame.remove(); }
  };
}
