document.documentElement.classList.add("js");
startTable();
startAbout();
startScatter();
startRun();
