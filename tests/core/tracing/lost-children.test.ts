import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { agent, agentTools, foldRecords, InMemoryStateStore, type JournalRecord, type Stamped } from 'millrace';
import { AgentLoop, taskState } from 'millrace/internals';
import type { Lease, TurnStarted } from 'millrace/types';
import { question } from '../dead-turn.ts';
import { turnBench } from '../turn-bench.ts';
import { answers, asks, fruit } from './tracing-bench.ts';

const bench = turnBench();
const parentId = 't';
const childId = 't:1:0';
const message = { name: 'child', arguments: { message: 'Count.' } };

/** A turn with one sub-agent that ran to its end: its journals, and its spans by id. */
async function ranOnce() {
  const child = agent({
    id: 'child',
    description: 'Counts.',
    clock: bench.clock,
    provider: bench.model([asks('count'), answers]),
    toolProviders: [fruit],
  });
  const config = bench.config(bench.model([{ toolCalls: [message] }, answers]), {
    toolProviders: [agentTools([child])],
  });
  await new AgentLoop(config).startTurn(question, { taskId: parentId }).result();
  const live = new Map(bench.spans.spans().map((span) => [span.spanContext().spanId, outline(span)]));
  bench.spans.clear();
  const parent = bench.store.read(parentId);
  return { parent, child: bench.store.read(childId), live, config };
}

const outline = (span: ReadableSpan) => [span.name, span.parentSpanContext?.spanId];

/** A store as it is once the process of the parent turn was killed behind these records; the child turn had given its lease back. */
function storeWith(
  { parent, child }: { readonly parent: readonly JournalRecord[]; readonly child: readonly JournalRecord[] },
  store = new InMemoryStateStore({ clock: bench.leases }),
): InMemoryStateStore {
  written(store, parent);
  store.release(written(store, child));
  bench.leases.advance(1_000);
  return store;
}

function written(store: InMemoryStateStore, records: readonly JournalRecord[]): Lease {
  const started = records[0] as Stamped<TurnStarted>;
  store.create(started.taskId, started);
  const lease = store.acquire(started.taskId, 'the dead', 1_000);
  store.append(lease, records.slice(1), { status: taskState(foldRecords(records)), barrier: true });
  return lease;
}

describe('a child turn that ended before its parent turn was lost', () => {
  it('H-31 has its spans again, with the outcome that it had, wherever the parent turn was', async () => {
    const { parent, child, live } = await ranOnce();
    const intent = parent.findIndex(({ type }) => type === 'tool.intent');
    for (let length = intent + 1; length < parent.length; length++) {
      bench.spans.clear();
      const store = storeWith({ parent: parent.slice(0, length), child });
      await AgentLoop.cancel(parentId, { store, clock: bench.clock });
      const spans = bench.spans.spans();
      for (const span of spans) expect(outline(span)).toEqual(live.get(span.spanContext().spanId));
      const ids = new Set(spans.map((span) => span.spanContext().spanId));
      expect(ids.size).toBe(spans.length);
      const parents = spans.flatMap(({ parentSpanContext }) => parentSpanContext?.spanId ?? []);
      expect(parents.filter((id) => !ids.has(id))).toEqual([]);
      const ofChild = spans.filter(({ attributes }) => attributes['millrace.task.id'] === childId);
      expect(ofChild.map(({ name }) => name).sort()).toEqual([
        'agent.execute',
        'agent.turn',
        'iteration[1]',
        'iteration[2]',
        'llm.call',
        'llm.call',
        'tool[count]',
        'tools.execute',
      ]);
      expect(ofChild.filter(({ attributes }) => attributes['millrace.outcome'] === 'lost')).toEqual([]);
      const ends = ofChild.filter(({ name }) => name.startsWith('agent.'));
      for (const { attributes } of ends)
        expect(attributes).toMatchObject({ 'millrace.outcome': 'completed', 'millrace.iterations': 2 });
    }
  });

  it('H-31 is left out where its journal was deleted, or cannot be read', async () => {
    const { parent, child, config } = await ranOnce();
    const damaged = child.filter(({ seq }) => seq !== 3);
    class Damaged extends InMemoryStateStore {
      override read(...args: Parameters<InMemoryStateStore['read']>) {
        return args[0] === childId ? damaged : super.read(...args);
      }
    }
    const records = parent.slice(0, -2);
    const deleted = storeWith({ parent: records, child });
    deleted.delete(childId);
    for (const store of [deleted, storeWith({ parent: records, child }, new Damaged({ clock: bench.leases }))]) {
      bench.spans.clear();
      const llmProvider = bench.model([answers]);
      const { status } = await AgentLoop.resume(parentId, { ...config, llmProvider, taskStateStore: store }).result();
      expect(status).toBe('completed');
      const tasks = bench.spans.spans().map(({ attributes }) => attributes['millrace.task.id']);
      expect(new Set(tasks)).toEqual(new Set([parentId]));
    }
  });

  it('H-31 does not hold the resumed turn up where the store does not tell its journal: only the end waits, for storeDeadlineMs', async () => {
    const { parent, child, config } = await ranOnce();
    class Silent extends InMemoryStateStore {
      override read(...args: Parameters<InMemoryStateStore['read']>) {
        return args[0] === childId ? (new Promise(() => {}) as never) : super.read(...args);
      }
    }
    const taskStateStore = storeWith({ parent: parent.slice(0, -2), child }, new Silent({ clock: bench.leases }));
    const turn = AgentLoop.resume(parentId, {
      ...config,
      llmProvider: bench.model([answers]),
      taskStateStore,
      storeDeadlineMs: 5_000,
    });
    const result = turn.result();
    await new Promise((resolve) => setImmediate(resolve));
    expect(taskStateStore.read(parentId).at(-1)?.type).toBe('turn.done');
    bench.clock.advance(5_000);
    expect((await result).status).toBe('completed');
  });

  it('H-31 is not written for a run of whoever took the turn while it was being cancelled', async () => {
    const { parent, child } = await ranOnce();
    const other = { traceId: 'e'.repeat(32), spanId: 'f'.repeat(16) };
    class Taken extends InMemoryStateStore {
      reads = 0;
      override read(...args: Parameters<InMemoryStateStore['read']>) {
        // The cancel reads the turn when it begins, when it has the lease, and for the spans.
        if (args[0] === parentId && ++this.reads === 3) this.#take();
        return super.read(...args);
      }
      #take(): void {
        this.breakLease(parentId);
        const lease = this.acquire(parentId, 'another', 1_000);
        const { seq } = lease;
        const resumed = {
          type: 'turn.resumed',
          trace: other,
          seq: seq + 1,
          epoch: lease.epoch,
          at: bench.clock.now(),
        } as const;
        this.append(lease, [resumed], { status: 'working', barrier: true });
      }
    }
    const store = new Taken({ clock: bench.leases });
    storeWith({ parent: parent.slice(0, -2), child }, store);
    const cancel = AgentLoop.cancel(parentId, { store, clock: bench.clock, deadlineMs: 1_000 });
    await new Promise((resolve) => setImmediate(resolve));
    bench.clock.advance(1_000);
    await cancel;
    expect(store.reads).toBeGreaterThan(3);
    const ids = bench.spans.spans().map((span) => span.spanContext().spanId);
    expect(ids).not.toContain(other.spanId);
    expect(ids).toContain(parent[0]?.type === 'turn.started' ? parent[0].trace?.spanId : '');
  });
});

describe('a turn with enableTracing: false', () => {
  it('H-31 has no trace in its journal, so that nobody writes spans of it', async () => {
    const span = bench.spans.provider.getTracer('caller').startSpan('request');
    const parentContext = trace.setSpan(ROOT_CONTEXT, span);
    await bench.loop([answers], { enableTracing: false }).startTurn(question, { taskId: 't', parentContext }).result();
    span.end();
    expect(bench.store.read('t')[0]).not.toHaveProperty('trace');
  });
});
