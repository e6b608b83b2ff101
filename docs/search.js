// Of a message that is pasted into the search box: the words that every such message has, without the reader's own
// place, quoted texts, paths and numbers. In a query quotes, colons and a minus have a meaning of their own.
document.addEventListener("paste", event => {
  const box = event.target
  if (!(box instanceof HTMLInputElement) || box.dataset.mdComponent !== "search-query") return
  event.preventDefault()
  const said = event.clipboardData.getData("text")
  const own = said.replace(/^.*: (?=expected )|^error:|"[^"]*"|\S*[\/\d]\S*/g, " ")
  const words = own.split(/[^\p{L}_.]+/u).filter(word => word.length > 2)
  box.setRangeText(words.join(" ") || said, box.selectionStart, box.selectionEnd, "end")
  box.dispatchEvent(new KeyboardEvent("keyup"))
})
