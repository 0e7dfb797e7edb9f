document.documentElement.classList.add("js");
startTable();
startAbout();
for (const select of document.querySelectorAll("select[data-panels]")) startChoice(select);
for (const list of document.querySelectorAll("[data-parts]")) startParts(list);
