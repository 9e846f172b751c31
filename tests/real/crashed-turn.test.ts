import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { ReceivedSpan } from '../otlp-decode.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../otlp-receiver.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';

const children = new ChildPrograms('tests/observability/children');
afterAll(() => children.clear());

let receiver: OtlpReceiver;
let path: string;
beforeEach(async () => {
  receiver = await startOtlpReceiver();
  path = await mkdtemp(join(tmpdir(), 'millrace-crashed-'));
});
afterEach(async () => {
  await receiver.close();
  await rm(path, { recursive: true, force: true });
});

/** Runs the turn until it is at a place, and kills its process once the collector has a span with this name that ended before. */
async function killedAt(verb: 'start' | 'resume' | 'untraced', place: string, exported?: string): Promise<void> {
  const before = receiver.spans.length;
  const child = children.start('traced-turn', path, receiver.url, verb, place);
  const [reached] = await nextMessage(child);
  expect(reached).toBe(place);
  if (exported) await receiver.waitUntil(({ spans }) => spans.slice(before).some(({ name }) => name === exported));
  await kill(child);
}

async function ended(): Promise<void> {
  const child = children.start('traced-turn', path, receiver.url, 'resume');
  const [said] = await nextMessage(child);
  expect(said).toMatchObject({ text: 'Closed.' });
  const { started, ended: over, exported } = Object(said).report;
  expect([over, exported]).toEqual([started, started]);
}

/** What a backend would show as missing. */
function gapsOf(spans: readonly ReceivedSpan[]): readonly string[] {
  const ids = new Set(spans.map(({ traceId, spanId }) => `${traceId}/${spanId}`));
  return spans.flatMap(({ traceId, name, parentSpanId, links }) => [
    ...(parentSpanId === undefined || ids.has(`${traceId}/${parentSpanId}`) ? [] : [`${name} has no parent`]),
    ...links.flatMap((link) => (ids.has(`${link.traceId}/${link.spanId}`) ? [] : [`${name} has a link to nowhere`])),
  ]);
}

/** The spans of the engine that are not within their parent, for a backend that keeps the last span of an id. */
function misfits(): readonly string[] {
  const last = new Map(receiver.spans.map((span) => [`${span.traceId}/${span.spanId}`, span]));
  return [...last.values()].flatMap((span) => {
    const parent = last.get(`${span.traceId}/${span.parentSpanId}`);
    // When a span of the caller's code ended is in no record.
    if (!parent || span.scope !== 'millrace') return [];
    return [
      ...(span.startMs < parent.startMs ? [`${span.name} starts before ${parent.name}`] : []),
      ...(span.endMs > parent.endMs ? [`${span.name} ends after ${parent.name}`] : []),
    ];
  });
}

/** Drops what has children: as if the process had been killed before these were exported. */
function forgetParents(): void {
  const parents = new Set(receiver.spans.map(({ traceId, parentSpanId }) => `${traceId}/${parentSpanId}`));
  const kept = receiver.spans.filter(({ traceId, spanId }) => !parents.has(`${traceId}/${spanId}`));
  receiver.spans.splice(0, receiver.spans.length, ...kept);
}

const named = (name: string) => receiver.spans.filter((span) => span.name === name);
/** The runs of a turn. */
const runsOf = (taskId: string) =>
  named('agent.execute').filter(({ attributes }) => attributes['millrace.task.id'] === taskId);
const lost = () => receiver.spans.filter(({ attributes }) => attributes['millrace.outcome'] === 'lost');

describe('a turn whose process is killed', () => {
  const inHelper = ['iteration[3]', 'tools.execute', 'tool[helper]', 'agent.turn', 'agent.execute'];
  const inDigger = ['iteration[1]', 'tools.execute', 'tool[digger]', 'agent.turn', 'agent.execute'];
  it.each([
    ['tool', 'GET', ['iteration[2]', 'tools.execute', 'tool[slow]']],
    ['deep', 'tool[look]', [...inHelper, ...inDigger]],
    ['child', 'tool[look]', inHelper],
    ['other', 'tool[look]', []],
  ])(
    'R-36 leaves no orphan, no dangling link and no span that outlives its parent once it is resumed: killed at "%s"',
    async (place, exported, open) => {
      await killedAt('start', place, exported);
      forgetParents();
      expect(gapsOf(receiver.spans)).not.toEqual([]);
      await ended();
      expect(gapsOf(receiver.spans)).toEqual([]);
      expect(misfits()).toEqual([]);
      const names = lost().map(({ name }) => name);
      for (const name of ['agent.turn', 'agent.execute', 'agent.segment', ...open]) {
        expect(names).toContain(name);
        names.splice(names.indexOf(name), 1);
      }
      expect(lost().every(({ attributes }) => attributes['millrace.restored'] === true)).toBe(true);
      const resumed = runsOf('t').filter(({ links }) => links.length > 0);
      expect(resumed.length).toBe(1);
      expect(lost().map(({ spanId }) => spanId)).toContain(resumed[0]?.links[0]?.spanId);
    },
  );

  it('H-31 leaves none after several crashes in a row, one of them without tracing', async () => {
    await killedAt('start', 'tool', 'GET');
    await killedAt('resume', 'tool', 'GET');
    await killedAt('untraced', 'child');
    await killedAt('resume', 'child', 'tool[look]');
    await killedAt('resume', 'other', 'tool[look]');
    await ended();
    expect(gapsOf(receiver.spans)).toEqual([]);
    expect(misfits()).toEqual([]);
    const runs = new Set(runsOf('t').map(({ spanId }) => spanId));
    expect(runs.size).toBe(5);
  });

  it.each([
    ['tool', 'GET'],
    ['deep', 'tool[look]'],
    ['child', 'tool[look]'],
    ['other', 'tool[look]'],
  ])('R-36 leaves none where it is cancelled from another process: killed at "%s"', async (place, exported) => {
    await killedAt('start', place, exported);
    forgetParents();
    const child = children.start('traced-turn', path, receiver.url, 'cancel');
    await nextMessage(child);
    expect(gapsOf(receiver.spans)).toEqual([]);
    expect(misfits()).toEqual([]);
    expect(lost().map(({ name }) => name)).toContain('agent.execute');
  });

  it('H-31 leaves none where the turn was started again with its id, and that process was killed too', async () => {
    await killedAt('start', 'tool', 'GET');
    await killedAt('start', 'tool', 'GET');
    await ended();
    expect(gapsOf(receiver.spans)).toEqual([]);
    expect(misfits()).toEqual([]);
    expect(new Set(runsOf('t').map(({ spanId }) => spanId)).size).toBe(3);
  });

  it('H-31 leaves none where it was killed after the turn was suspended', async () => {
    const child = children.start('asking-turn', path, receiver.url, 'start');
    await nextMessage(child);
    await receiver.waitUntil(({ spans }) => spans.some(({ name }) => name === 'agent.turn'));
    await kill(child);
    const [said] = await nextMessage(children.start('asking-turn', path, receiver.url, 'resume'));
    expect(said).toMatchObject({ text: 'Paid.' });
    expect(gapsOf(receiver.spans)).toEqual([]);
    expect(misfits()).toEqual([]);
    const [first, second] = runsOf('t');
    expect(second?.links).toEqual([expect.objectContaining({ spanId: first?.spanId })]);
  });

  it('H-31 writes a call of the model that had ended with what it took, and under its own id', async () => {
    await killedAt('start', 'tool', 'GET');
    const before = named('llm.call').length;
    await ended();
    const restored = named('llm.call')
      .slice(before)
      .filter(({ attributes }) => attributes['millrace.restored'] === true);
    const first = restored.find(({ attributes }) => attributes['millrace.iteration'] === 1);
    expect(first?.attributes).toMatchObject({ 'gen_ai.usage.input_tokens': 10, 'gen_ai.usage.output_tokens': 2 });
    const own = receiver.spans.filter(({ spanId }) => spanId === first?.spanId);
    expect(new Set(own.map(({ parentSpanId }) => parentSpanId)).size).toBe(1);
  });
});
