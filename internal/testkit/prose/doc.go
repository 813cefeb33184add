// Package prose holds the sentences of documentation pages against committed results.
//
// A test lists the [Sentence] values of a page: the words as they stand there, and for each number in
// them the value that the results give. [Page.Check] fails for a sentence that the page no longer
// says, for a number that the results no longer give, and for every other number of the page's
// sentences, unless the test lists it as given: a setting, a rule, or a quotation that no result
// decides. So no number can enter a sentence without somebody saying what it follows from.
package prose
