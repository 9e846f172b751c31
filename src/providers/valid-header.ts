/** Whether fetch takes it. The error of `Headers` itself would show the value, which may be a secret. */
export function isHeader(name: string, value: string): boolean {
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}
