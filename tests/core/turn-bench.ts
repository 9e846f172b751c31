import { afterEach, beforeEach, expect } from '@jest/globals';
import { AgentLoop, type AgentLoopConfig, InMemoryStateStore } from 'millrace';
import {
  type FakeClock,
  fakeClock,
  openResources,
  type ResourceLedger,
  recordSpans,
  type ScriptedLLM,
  type ScriptedLLMOptions,
  type ScriptedLLMStep,
  type SpanRecorder,
  scriptedLLM,
} from 'millrace/testing';
import { finalize, Observable } from 'rxjs';

/** The memory store, counting who reads its streams. */
class WatchedStore extends InMemoryStateStore {
  readers = 0;

  override commands(taskId: string) {
    return this.#counted(super.commands(taskId));
  }

  override follow(...args: Parameters<InMemoryStateStore['follow']>) {
    return this.#counted(super.follow(...args));
  }

  #counted<T>(source: Observable<T>): Observable<T> {
    return new Observable<T>((subscriber) => {
      this.readers++;
      return source.pipe(finalize(() => this.readers--)).subscribe(subscriber);
    });
  }
}

export interface BenchOptions extends Partial<AgentLoopConfig> {
  /** False: the turns have no store. Default true. */
  readonly store?: boolean;
}

/** What turns are tried on: made anew for each test. */
export interface TurnBench {
  /** Of the turns. */
  readonly clock: FakeClock;
  /** Of the store: leases run out on it, whatever their owners believe. */
  readonly leases: FakeClock;
  readonly store: InMemoryStateStore;
  readonly spans: SpanRecorder;
  /** A scripted model. The test ends with an error where it was called too often, or too seldom. */
  model(steps: readonly ScriptedLLMStep[], options?: ScriptedLLMOptions): ScriptedLLM;
  /** A configuration on the bench's store and clock. */
  config(llmProvider: AgentLoopConfig['llmProvider'], options?: BenchOptions): AgentLoopConfig;
  /** A loop with a scripted model, on the bench's store and clock. */
  loop(steps: readonly ScriptedLLMStep[], options?: BenchOptions): AgentLoop;
}

interface Parts {
  readonly clock: FakeClock;
  readonly leases: FakeClock;
  readonly store: WatchedStore;
  readonly spans: SpanRecorder;
  readonly resources: ResourceLedger;
  readonly models: ScriptedLLM[];
}

/**
 * Gives each test of a file a bench, and checks after it that nothing is left over: a timer of the clock or the process, an open
 * model call, a reader of the store, a span that has not ended, a step of a script.
 */
export function turnBench(): TurnBench {
  let parts: Parts;
  beforeEach(() => {
    const clock = fakeClock({ startAt: Date.UTC(2030, 0, 1) });
    const leases = fakeClock();
    const store = new WatchedStore({ clock: leases });
    parts = { clock, leases, store, spans: recordSpans(), resources: openResources(), models: [] };
  });
  afterEach(async () => {
    await parts.spans.dispose();
    expect(leftOver(parts)).toEqual({ timers: 0, readers: 0, calls: 0, spans: [] });
    for (const model of parts.models) model.assertDone();
    await parts.resources.assertNone();
  });
  const model: TurnBench['model'] = (steps, options) => {
    const made = scriptedLLM(steps, options);
    parts.models.push(made);
    return made;
  };
  const config: TurnBench['config'] = (llmProvider, { store = true, ...options } = {}) => ({
    agentId: 'tester',
    llmProvider,
    ...(store ? { taskStateStore: parts.store } : {}),
    clock: parts.clock,
    ...options,
  });
  return {
    get clock() {
      return parts.clock;
    },
    get leases() {
      return parts.leases;
    },
    get store() {
      return parts.store;
    },
    get spans() {
      return parts.spans;
    },
    model,
    config,
    loop: (steps, options) => new AgentLoop(config(model(steps), options)),
  };
}

function leftOver({ clock, store, spans, models }: Parts) {
  const calls = models.reduce((sum, model) => sum + model.active, 0);
  return { timers: clock.pending, readers: store.readers, calls, spans: spans.open() };
}
