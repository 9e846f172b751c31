/**
 * Whether a request may come from a page of the server that it is for: it has no `Origin`, as that of a program, or one with the host and the port of
 * `url`, the address that it was sent to. Another port is another origin, whose pages anybody may have written.
 */
export function isOwnOrigin(origin: string | null | undefined, url: string): boolean {
  if (origin === null || origin === undefined) return true;
  return URL.canParse(origin) && URL.canParse(url) && new URL(origin).host === new URL(url).host;
}
