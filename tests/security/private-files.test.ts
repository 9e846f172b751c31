import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { folderArtifactStore, recordResponses, type TaskStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LmdbCacheStore, LmdbMessageStore, LmdbPushStore, LmdbStateStore } from 'millrace/lmdb';
import { recordTurn, scriptedLLM } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';
import { runInProcess } from '../cli/run-in-process.ts';

let folder: string;
let umask: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'private-files-'));
  umask = process.umask(0o022);
});
afterEach(() => {
  process.umask(umask);
  rmSync(folder, { recursive: true });
});

/** Every file and folder below, with what is allowed to whom. */
function modes(): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    const stat = statSync(path);
    return `${stat.isDirectory() ? 'folder' : 'file'} ${(stat.mode & 0o777).toString(8)} ${path.slice(folder.length)}`;
  });
}

function expectPrivate(): void {
  const found = modes();
  expect(found.filter((line) => !/^(?:folder 700|file 600) /.test(line))).toEqual([]);
  expect(found.filter((line) => line.startsWith('file'))).not.toEqual([]);
  expect(found.filter((line) => line.startsWith('folder'))).not.toEqual([]);
}

async function runTurn(taskStateStore: TaskStateStore, llmProvider = scriptedLLM([{ text: 'Hello.' }])) {
  const loop = new AgentLoop({ agentId: 'a', llmProvider, taskStateStore });
  const turn = loop.startTurn([{ role: 'user', content: 'Hi.' }], { taskId: 't' });
  await turn.result();
  await turn.settled;
}

const path = () => join(folder, 'deep', 'store');

describe('files under umask 022', () => {
  const stores = {
    'the journals of LMDB': async () => {
      const store = new LmdbStateStore({ path: path() });
      await runTurn(store);
      await store.close();
    },
    'the conversations of LMDB': () => new LmdbMessageStore({ path: path() }).close(),
    'the cache of LMDB': () => new LmdbCacheStore({ path: path() }).close(),
    'the webhooks of LMDB': () => new LmdbPushStore({ path: path() }).close(),
    'a folder of artifacts': async () => {
      const store = folderArtifactStore(path());
      await store.create({ name: 'a', artifactId: 'a', taskId: 't', contextId: 'c', content: 'one' });
      await store.append('a', new Uint8Array(100_000));
    },
    'the store of the command line': async () => {
      const { exitCode } = await runInProcess(['run', 'Hi.', '--store', `lmdb:${path()}`]);
      expect(exitCode).toBe(0);
    },
    'a recorded turn': async () => {
      const store = new LmdbStateStore({ path: path() });
      await runTurn(store);
      await recordTurn('t', join(folder, 'cassettes', 'turn.jsonl'), { store });
      await store.close();
    },
    'recorded answers': async () => {
      const record = recordResponses({ path: join(folder, 'cassettes', 'answers.jsonl') });
      const provider = record(scriptedLLM([{ text: 'Hello.' }]));
      const chunks = provider.stream?.({ messages: [{ role: 'user', content: 'Hi.' }] });
      if (chunks === undefined) throw new Error('it does not stream');
      await lastValueFrom(chunks);
    },
  };

  it.each(Object.entries(stores))('H-03 only their owner has access to %s', async (_name, make) => {
    await make();
    expectPrivate();
  });

  it('H-03 check() warns of a store that others may read', async () => {
    const store = new LmdbStateStore({ path: path() });
    expect(await store.check()).toEqual({ ok: true, warnings: [] });
    chmodSync(join(path(), 'data.mdb'), 0o644);
    expect((await store.check()).warnings).toEqual([]);
    chmodSync(path(), 0o755);
    expect(await store.check()).toEqual({
      ok: true,
      warnings: [`Every user of this machine can read the journals in "${path()}"; run chmod -R go-rwx on it.`],
    });
    await store.close();
  });

  it('H-03 only its owner can read what millrace export writes', async () => {
    const store = new LmdbStateStore({ path: path() });
    await runTurn(store);
    await store.close();
    const file = join(folder, 'turn.jsonl');
    const { exitCode } = await runInProcess(['export', 't', file, '--store', `lmdb:${path()}`]);
    expect(exitCode).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expectPrivate();
  });
});
