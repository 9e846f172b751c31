/** A function that makes its value anew only where its text differs from that of the call before. Memory: one value. */
export function keepLatest<T>(make: (text: string) => T): (text: string) => T {
  let latest: { readonly text: string; readonly value: T } | undefined;
  return (text) => {
    if (latest?.text !== text) latest = { text, value: make(text) };
    return latest.value;
  };
}
