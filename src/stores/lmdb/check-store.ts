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
  if (freeBytes < lowBytes) {
    warnings.push(`The disk of "${path}" has ${Math.floor(freeBytes / 1024 / 1024)} MB left; free some space.`);
  }
  return { ok: refused === undefined && network === undefined, warnings };
}

async function refusedWrite(database: LmdbDatabase): Promise<string | undefined> {
  try {
    await database.write(() => database.put(['check'], 'written'));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
