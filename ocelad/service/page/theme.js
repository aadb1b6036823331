// The colours chosen last time, before anything is drawn; a classic script, because modules run too late for that.
document.documentElement.dataset.theme = localStorage.getItem("ocelad.theme") ?? "auto";
