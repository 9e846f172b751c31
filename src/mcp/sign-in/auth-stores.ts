import { createHash, randomUUID } from 'node:crypto';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder, writePrivate } from '../../private-files.ts';
import type { McpAuthStore } from './auth-options.ts';

/** Keeps tokens in this process, until it ends. A sign-in has to be finished in the process that began it. */
export function memoryAuthStore(): McpAuthStore {
  const values = new Map<string, string>();
  return {
    load: async (key) => {
      const text = values.get(key);
      return text === undefined ? undefined : JSON.parse(text);
    },
    save: async (key, value) => void values.set(key, JSON.stringify(value)),
    delete: async (key) => void values.delete(key),
  };
}

/**
 * Keeps tokens in a folder, a file for each key, which only its owner can read. Processes can share it: a value is replaced as a whole, and
 * the last writer wins. The values are not encrypted.
 */
export function fileAuthStore(folder: string): McpAuthStore {
  const fileOf = (key: string) => join(folder, `${createHash('sha256').update(key).digest('hex')}.json`);
  return {
    async load(key) {
      try {
        return JSON.parse(await readFile(fileOf(key), 'utf8'));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    async save(key, value) {
      await makeFolder(folder);
      const draft = join(folder, `${randomUUID()}.tmp`);
      await writePrivate(draft, JSON.stringify(value), 'wx');
      await rename(draft, fileOf(key));
    },
    delete: (key) => rm(fileOf(key), { force: true }),
  };
}

function isMissing(error: unknown): boolean {
  return typeof error === 'object' && error !== null && Reflect.get(error, 'code') === 'ENOENT';
}
