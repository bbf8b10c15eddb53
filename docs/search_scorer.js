// How the search of the site ranks pages: Sphinx's own numbers, with the reproductions after the guide.
var Scorer = {
  score: ([page, title, anchor, description, score, file]) =>
    page.startsWith("reproductions/") ? score - 20 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
