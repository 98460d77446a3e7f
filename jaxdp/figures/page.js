"use strict";
(() => {
  document.documentElement.classList.add("js");
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      let done = true;
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        getSelection().selectAllChildren(source); // pages from files may not have a clipboard
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
