// Says whether lmdb is loaded once the library was imported, and once a store was made.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreFactory } from 'millrace';

const { cache } = createRequire(import.meta.url);
const isLoaded = (): boolean => Object.keys(cache).some((file) => file.includes('lmdb'));
const atImport = isLoaded();
const path = mkdtempSync(join(tmpdir(), 'millrace-import-'));
StoreFactory.createStateStore({ type: 'lmdb', path });
process.send?.({ atImport, atConstruction: isLoaded() });
rmSync(path, { recursive: true });
process.disconnect();
