// Applies the stored theme before anything is drawn. Modules run too late, so that this is a classic script.
document.documentElement.dataset.theme = localStorage.getItem("ocelad.theme") ?? "auto";
