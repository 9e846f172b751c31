// Runs turns whose answers are streamed, followed or not, over one store; says how much heap they took over what was there before.
// Arguments: memory|lmdb|redis, path or URL, followed|alone, turns, characters of an answer, characters of a chunk.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { InMemoryStateStore, type LLMChunk, type LLMProvider, type TaskStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import { Observable } from 'rxjs';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
const [kind = '', where = '', readers = '', ...numbers] = process.argv.slice(2);
const [turns = 8, answerLength = 0, chunkLength = 0] = numbers.map(Number);
const alphabet = 'abcdefghijklmnopqrstuvwxyz ';
const megabyte = 1024 * 1024;

function openStore(): TaskStateStore & { close?(): Promise<void> } {
  if (kind === 'lmdb') return new LmdbStateStore({ path: where });
  if (kind === 'redis') return new RedisStateStore({ redis: where });
  return new InMemoryStateStore();
}

/** A flat string of its own, as a decoder makes it. */
function pieceOf(turn: number, index: number): string {
  return Buffer.alloc(chunkLength, alphabet[(turn + index) % alphabet.length]).toString('latin1');
}

let base = 0;
let peak = 0;
/** Live bytes when all turns had asked their model. */
let waiting = 0;
let begun = 0;
/** Live bytes when all answers were written and none had ended. */
let open = 0;
/** Answers that are written, and end once all are. */
const written: (() => void)[] = [];

function heap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Without a collection: what the process takes, garbage included. */
function sample(): void {
  peak = Math.max(peak, process.memoryUsage().heapUsed);
}

function provider(turn: number, length: number, atOnce: number): LLMProvider {
  const chunks = length / chunkLength;
  return {
    info: { providerName: 'local', model: 'local' },
    call: () => Promise.reject(new Error('It streams.')),
    stream: () =>
      new Observable<LLMChunk>((subscriber) => {
        let sent = 0;
        if (atOnce > 1 && ++begun === atOnce) waiting = heap();
        const send = () => {
          if (subscriber.closed) return;
          for (let size = 0; size < 256 && sent < chunks; size += chunkLength) {
            subscriber.next({ type: 'text', text: pieceOf(turn, sent++) });
          }
          sample();
          if (sent < chunks) return void setImmediate(send);
          written.push(() => {
            const text = Array.from({ length: chunks }, (_, index) => pieceOf(turn, index)).join('');
            subscriber.next({ type: 'done', response: { message: { role: 'assistant', content: text } } });
            subscriber.complete();
          });
          if (written.length < atOnce) return;
          open = heap() - waiting;
          for (const end of written.splice(0)) end();
        };
        setImmediate(send);
      }),
  };
}

const store = openStore();

/** Gives the text that a follower was shown; it keeps every event's text, as a page does that shows the answer. */
function follow(taskId: string): Promise<string> {
  const pieces: string[] = [];
  return new Promise((resolve, reject) => {
    AgentLoop.observe(taskId, { store }).subscribe({
      next: (event) => {
        if (event.kind !== 'artifact-update') return;
        if (!event.append) pieces.length = 0;
        for (const part of event.artifact.parts) if (part.kind === 'text') pieces.push(part.text);
      },
      error: reject,
      complete: () => resolve(pieces.join('')),
    });
  });
}

async function run(turn: number, length: number, atOnce: number): Promise<boolean> {
  const config = { agentId: 'writer', llmProvider: provider(turn, length, atOnce), taskStateStore: store };
  const started = new AgentLoop(config).startTurn([{ role: 'user', content: 'Write.' }]);
  let followed: Promise<string> | undefined;
  started.subscribe(({ kind }) => {
    if (readers === 'followed' && kind === 'artifact-update') followed ??= follow(started.taskId);
  });
  const { text } = await started.result();
  await started.settled;
  return text.length === length && (followed === undefined || (await followed) === text);
}

// So that what is loaded and compiled once counts to the base.
await run(0, 64 * chunkLength, 1);
base = heap();
peak = base;
const results = await Promise.all(Array.from({ length: turns }, (_, turn) => run(turn, answerLength, turns)));
await store.close?.();
process.send?.({
  peakMegabytes: (peak - base) / megabyte,
  openPerText: open / (turns * answerLength),
  whole: results.every(Boolean),
});
process.disconnect();
