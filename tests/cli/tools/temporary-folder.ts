import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A folder with the given files, by their paths. `remove` deletes it. */
export function temporaryFolder(files: Readonly<Record<string, string | Uint8Array>>): {
  readonly path: string;
  remove(): void;
} {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'millrace-')));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), content);
  }
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
