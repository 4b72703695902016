// Returns the first of the indices 0 to `count` for which `reached` is true, by binary search; `count` if there is none.
export function firstIndex(count: number, reached: (index: number) => boolean) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
