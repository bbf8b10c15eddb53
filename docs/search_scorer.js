// How the search of the site ranks pages: Sphinx's own numbers, with the reproductions after the guide, and names of
// the API reference after pages whose title matches.
var Scorer = {
  score: ([page, title, anchor, description, score, file]) =>
    page.startsWith("reproductions/") ? score - 20 : score,
  objNameMatch: 6,
  objPartialMatch: 6,
  objPrio: {0: 5, 1: 0, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
