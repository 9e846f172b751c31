import type { StatusUpdateEvent } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from '../dead-turn.ts';
import { type PlainTool, plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

type Answers = Readonly<Record<string, unknown>>;
type PlainTools = Readonly<Record<string, PlainTool>>;

/** Gives each test of a file a bench, and turns that ask something, all of them of task `t`. */
export function questionBench() {
  const bench = turnBench();
  const goOn = (model: ReturnType<typeof bench.model>, answers: Answers, tools: PlainTools) =>
    AgentLoop.resume('t', bench.config(model, { toolProviders: [plainTools(tools)] }), { answers });
  return {
    bench,

    /** A turn of these tools that called all of them and waits. */
    async waiting(tools: PlainTools) {
      const toolProviders = [plainTools(tools)];
      const turn = bench.loop(calls(...Object.keys(tools)), { toolProviders }).startTurn(question, { taskId: 't' });
      const watcher = watch(turn);
      const result = await turn.result();
      await turn.settled;
      return { result, watcher, toolProviders };
    },

    /** Goes on with the task in what might be another process, where the model is asked once more. */
    resumed(answers: Answers, tools: PlainTools) {
      const model = bench.model([{ text: 'Done.' }]);
      return { turn: goOn(model, answers, tools), model };
    },

    /** The same where the model must not be asked. */
    resumedWithoutModel: (answers: Answers, tools: PlainTools) => goOn(bench.model([]), answers, tools),
  };
}

/** A script whose one answer calls these tools. */
export function calls(...names: readonly string[]) {
  return [{ toolCalls: names.map((name) => ({ name })) }];
}

/** State, finality and asking calls of each status of a turn. */
export function statuses(events: readonly unknown[]) {
  return (events as readonly StatusUpdateEvent[])
    .filter(({ kind }) => kind === 'status-update')
    .map(({ status, final, questions }) => [status.state, final, questions?.map(({ callId }) => callId)]);
}
