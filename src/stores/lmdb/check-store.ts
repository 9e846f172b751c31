import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { StoreCheck } from '../interfaces.ts';
import { fileSystemOf } from './file-system.ts';
import type { LmdbDatabase } from './lmdb-database.ts';

const lowBytes = 64 * 1024 * 1024;

/** `TaskStateStore.check`: tries a write, and looks at where the file lies. */
export async function checkStore(database: LmdbDatabase): Promise<StoreCheck> {
  const { path } = database;
  const { network, freeBytes } = fileSystemOf(path);
  const refused = await refusedWrite(database);
  const warnings: string[] = [];
  if (refused !== undefined) warnings.push(refused);
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
  return { ok: refused === undefined && network === undefined, warnings };
}

/** Made by version 0.1, which left that to the umask, or changed since. Windows has no such modes. */
function isOpenToOthers(path: string): boolean {
  if (process.platform === 'win32') return false;
  const [reaches, reads] = [0o001, 0o004];
  const modeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.mode ?? 0;
  return (modeOf(path) & reaches) !== 0 && (modeOf(join(path, 'data.mdb')) & reads) !== 0;
}

async function refusedWrite(database: LmdbDatabase): Promise<string | undefined> {
  try {
    await database.write(() => database.put(['check'], 'written'));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
