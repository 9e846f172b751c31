import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf, type StoreCheck } from '../../core/contracts/index.ts';
import { fileSystemOf } from './file-system.ts';
import type { LmdbDatabase } from './lmdb-database.ts';

const lowBytes = 64 * 1024 * 1024;
/** How long a write may wait for other processes. */
const writeMs = 5_000;

/** `TaskStateStore.check`: tries a write, and looks at where the file lies. Never rejects. */
export async function checkStore(database: LmdbDatabase): Promise<StoreCheck> {
  const refused = await refusedWrite(database);
  const { isLocal, warnings } = placeOf(database.path);
  return { ok: refused === undefined && isLocal, warnings: refused === undefined ? warnings : [refused, ...warnings] };
}

interface Place {
  readonly isLocal: boolean;
  readonly warnings: readonly string[];
}

/** Of a folder that is gone, nothing: the write says so. */
function placeOf(path: string): Place {
  try {
    return foundPlace(path);
  } catch {
    return { isLocal: true, warnings: [] };
  }
}

function foundPlace(path: string): Place {
  const { network, freeBytes } = fileSystemOf(path);
  const warnings: string[] = [];
  if (network !== undefined) {
    warnings.push(
      `"${path}" lies on a network file system (${network}), where locks and memory maps do not hold; give a path on a local disk, or use Redis.`,
    );
  }
  if (isOpenToOthers(path)) {
    warnings.push(`Every user of this machine can read the journals in "${path}"; run chmod -R go-rwx on it.`);
  }
  if (freeBytes < lowBytes) {
    warnings.push(`The disk of "${path}" has ${Math.floor(freeBytes / 1024 / 1024)} MB left; free some space.`);
  }
  return { isLocal: network === undefined, warnings };
}

/** Made by version 0.1, which left that to the umask, or changed since. Windows has no such modes. */
function isOpenToOthers(path: string): boolean {
  if (process.platform === 'win32') return false;
  const [reaches, reads] = [0o001, 0o004];
  const modeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.mode ?? 0;
  return (modeOf(path) & reaches) !== 0 && (modeOf(join(path, 'data.mdb')) & reads) !== 0;
}

async function refusedWrite(database: LmdbDatabase): Promise<string | undefined> {
  const patience = new AbortController();
  const write = database.write(() => database.put(['check'], 'written')).then(() => undefined, messageOf);
  const late = sleep(writeMs, heldUp(database.path), { signal: patience.signal }).catch(() => undefined);
  try {
    return await Promise.race([write, late]);
  } finally {
    patience.abort();
  }
}

function heldUp(path: string): string {
  return `The LMDB store at "${path}" could not be written to within ${writeMs} ms: another process is in a transaction, and may be stopped; continue or end that process.`;
}
