import { afterEach, jest } from '@jest/globals';

/** The first arguments of what is printed until the test ends, which then appears in no output: packages print errors that a test expects. */
export function capturedConsole(method: 'error' | 'warn'): readonly string[] {
  const lines: string[] = [];
  captures.push(jest.spyOn(console, method).mockImplementation((...printed) => void lines.push(String(printed[0]))));
  return lines;
}

const captures: { mockRestore(): void }[] = [];
afterEach(() => {
  for (const capture of captures.splice(0)) capture.mockRestore();
});
