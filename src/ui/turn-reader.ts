import {
  type AgentEvent,
  type ArtifactUpdateEvent,
  type LlmResponseEvent,
  partsText,
  type StatusUpdateEvent,
  type SubAgentEvent,
  type ToolCallDeltaEvent,
  type ToolCompleteEvent,
} from '../core/contracts/index.ts';
import type { Question } from '../core/journal/index.ts';
import { isAfterCursor } from '../tasks/read-events.ts';
import { add, isSame, type OpenText, type ShownCall, said } from './open-iteration.ts';
import { isOfCall, parsedArguments, shownQuestion, unnamed } from './shown-question.ts';
import type { ShownEnd, ShownStep } from './shown-steps.ts';
import { codeOf, type Shown } from './stream-options.ts';

const answer = /^answer-(\d+)(?:\.\d+)?$/;
/** A call that ends the turn: its value or text follows as an artifact. */
const finish = '__finish__';

/**
 * Reads the events of one turn, live or replayed, and says what is to be shown. A replay gives what the live turn came to: reasoning stands before the text, each
 * text and each call once. Holds the open iteration as far as it is shown.
 */
export class TurnReader {
  readonly #shown: Shown;
  readonly #isNew: (event: AgentEvent) => boolean;
  #ids: { readonly taskId: string; readonly contextId: string } | undefined;
  #iteration: number | undefined;
  #isIterationOpen = false;
  #reasoning: OpenText | undefined;
  #text: OpenText | undefined;
  readonly #calls = new Map<string, ShownCall>();
  /** The parts of the open iteration, in the order in which they were shown. */
  #order: string[] = [];
  /** A whole text that waits for the response, whose reasoning stands before it. */
  #held: ArtifactUpdateEvent | undefined;
  readonly #versions = new Map<string, number>();
  readonly #asked = new Set<string>();
  readonly #visible = new Set<string>();
  #isOver = false;

  /** Errors: `INVALID_INPUT` for an invalid cursor. */
  constructor(shown: Shown) {
    this.#shown = shown;
    this.#isNew = shown.from === undefined ? () => true : isAfterCursor(shown.from);
  }

  /** What an event changes. Nothing after the end. */
  read(event: AgentEvent): readonly ShownStep[] {
    if (this.#isOver || !this.#isNew(event)) return [];
    const steps: ShownStep[] = [];
    if (!this.#ids) {
      const { taskId, contextId } = event;
      this.#ids = { taskId, contextId };
      steps.push({ type: 'begin', taskId, contextId });
    }
    if (this.#held && event.kind !== 'internal:llm-response') steps.push(...this.#release());
    steps.push(...this.#stepsOf(event));
    return steps;
  }

  /** How it ends where the stream of events errors: this process lost the turn, or could not begin it. */
  lost(error: unknown): readonly ShownStep[] {
    if (this.#isOver) return [];
    const { taskId = '', contextId = '' } = this.#ids ?? {};
    const end: ShownEnd = { type: 'end', taskId, contextId, state: 'working', code: codeOf(error), questions: [] };
    return [...this.#closed(), ...this.#ended(end)];
  }

  #stepsOf(event: AgentEvent): readonly ShownStep[] {
    switch (event.kind) {
      case 'internal:iteration-start':
        return this.#begin(event.iteration);
      case 'internal:iteration-complete':
        // A reader that began in the middle of it has its beginning from an earlier stream.
        if (this.#iteration === undefined) return [{ type: 'iteration-end', iteration: event.iteration }];
        return this.#closed();
      case 'internal:llm-call':
        // The answer of the attempt before was replaced, or its process died in the middle of it.
        return event.iteration === this.#iteration && this.#order.length > 0 ? this.#discard() : [];
      case 'internal:llm-attempt-discarded':
        return this.#discard();
      case 'internal:reasoning-delta':
        return this.#reason(event.text);
      case 'internal:tool-call-delta':
        return this.#callDelta(event);
      case 'internal:llm-response':
        return this.#respond(event);
      case 'internal:tool-progress':
        return this.#progress(event);
      case 'internal:tool-complete':
        return this.#complete(event);
      case 'internal:sub-agent':
        return this.#subAgent(event);
      case 'artifact-update':
        return this.#artifact(event);
      case 'status-update':
        return this.#status(event);
      default:
        event.kind satisfies
          | 'task'
          | 'internal:request-fitted'
          | 'internal:llm-warning'
          | 'internal:tool-start'
          | 'internal:checkpoint'
          | 'internal:paused'
          | 'internal:resumed'
          | 'internal:extension-error'
          | `internal:x.${string}`;
        return [];
    }
  }

  #begin(iteration: number): readonly ShownStep[] {
    const steps = this.#closed();
    this.#iteration = iteration;
    this.#isIterationOpen = true;
    this.#reset();
    return [...steps, { type: 'iteration', iteration }];
  }

  #reset(): void {
    this.#reasoning = undefined;
    this.#text = undefined;
    this.#calls.clear();
    this.#order = [];
  }

  /** The ends of what is open. */
  #closed(): readonly ShownStep[] {
    const steps: ShownStep[] = [...this.#endReasoning(), ...this.#endText()];
    if (this.#isIterationOpen && this.#iteration !== undefined)
      steps.push({ type: 'iteration-end', iteration: this.#iteration });
    this.#isIterationOpen = false;
    return steps;
  }

  #endReasoning(): readonly ShownStep[] {
    if (!this.#reasoning?.isOpen) return [];
    this.#reasoning.isOpen = false;
    return [{ type: 'reasoning-end', id: this.#reasoning.id, of: this.#reasoning.of }];
  }

  #endText(): readonly ShownStep[] {
    if (!this.#text?.isOpen) return [];
    this.#text.isOpen = false;
    return [{ type: 'text-end', id: this.#text.id, of: this.#text.of }];
  }

  /** All of the attempt is void. */
  #discard(): readonly ShownStep[] {
    if (this.#order.length === 0) return [];
    const texts = [this.#reasoning, this.#text].flatMap((each) => (each ? [each.id] : []));
    const calls = [...this.#calls.keys()];
    this.#reset();
    return [{ type: 'void', texts, calls, standing: [], fresh: [] }];
  }

  #open(of: string): OpenText {
    const version = (this.#versions.get(of) ?? 0) + 1;
    this.#versions.set(of, version);
    const id = this.#outside(version === 1 ? of : `${of}.${version}`);
    const outside = this.#outside(of);
    this.#order.push(outside);
    return { id, of: outside, text: '', isOpen: true };
  }

  #outside(id: string): string {
    return `${this.#ids?.taskId ?? ''}/${id}`;
  }

  #reason(text: string): readonly ShownStep[] {
    if (!this.#shown.reasoning || text === '') return [];
    this.#reasoning ??= this.#open(`reasoning-${this.#iteration ?? 0}`);
    this.#reasoning.text += text;
    return [{ type: 'reasoning', id: this.#reasoning.id, of: this.#reasoning.of, text }];
  }

  #artifact(event: ArtifactUpdateEvent): readonly ShownStep[] {
    const { artifact, append, lastChunk, cursor } = event;
    const { artifactId: of, name, parts } = artifact;
    const [, number] = answer.exec(of) ?? [];
    if (number !== undefined) {
      // A final text after text beside calls stands alone, as an answer after them does. A reader that came back knows no iteration.
      if (!this.#isIterationOpen && this.#text && this.#iteration !== undefined && Number(number) !== this.#iteration)
        return [...this.#begin(Number(number)), ...this.#say(of, partsText(parts), append, lastChunk)];
      const isWhole = lastChunk && this.#text === undefined && this.#reasoning === undefined;
      if (this.#shown.reasoning && isWhole && this.#isIterationOpen) this.#held = event;
      return this.#held ? [] : this.#say(of, partsText(parts), append, lastChunk);
    }
    const recorded = cursor !== undefined;
    if (!recorded && this.#shown.tools !== 'full') return [];
    const [data] = parts.flatMap((part) => (part.kind === 'data' ? [part.data] : []));
    const id = this.#outside(of);
    const content = data ? { data } : { text: partsText(parts) };
    return [{ type: 'artifact', id, append, recorded, ...(name === undefined ? {} : { name }), ...content }];
  }

  #release(): readonly ShownStep[] {
    const held = this.#held;
    this.#held = undefined;
    if (!held) return [];
    return this.#say(held.artifact.artifactId, partsText(held.artifact.parts), held.append, held.lastChunk);
  }

  #say(of: string, text: string, append: boolean, last: boolean): readonly ShownStep[] {
    const before = this.#text;
    const replaces = before !== undefined && (!append || before.of !== this.#outside(of)) && before.text !== '';
    if (replaces && before.of === this.#outside(of) && before.text === text) return last ? this.#endText() : [];
    if (!replaces) {
      if (text !== '') this.#text ??= this.#open(of);
      const shown = this.#text;
      if (!shown) return [];
      shown.text += text;
      const piece: readonly ShownStep[] = text === '' ? [] : [{ type: 'text', id: shown.id, of: shown.of, text }];
      return [...piece, ...(last ? this.#endText() : [])];
    }
    this.#order = this.#order.filter((part) => part !== before.of);
    this.#text = undefined;
    const fresh: ShownStep[] = [];
    if (text !== '') {
      const shown = this.#open(of);
      this.#text = shown;
      shown.text = text;
      fresh.push({ type: 'text', id: shown.id, of: shown.of, text });
      if (last) fresh.push(...this.#endText());
    }
    // Where the new text stands: as the replay of the records has it, behind what was shown by then.
    return [{ type: 'void', texts: [before.id], calls: [], standing: this.#standing(), fresh }];
  }

  /** What the open iteration comes to by now. */
  #standing(): readonly ShownStep[] {
    return this.#order.flatMap((part) => {
      if (part === this.#reasoning?.of) return said('reasoning', this.#reasoning);
      if (part === this.#text?.of) return said('text', this.#text);
      return this.#calls.get(part)?.steps ?? [];
    });
  }

  #callDelta(event: ToolCallDeltaEvent): readonly ShownStep[] {
    const { callId, toolName, arguments: text } = event;
    const { tools } = this.#shown;
    const id = this.#outside(callId);
    const known = this.#calls.get(id);
    const steps = known || toolName === undefined ? [] : this.#announce(id, toolName);
    const call = this.#calls.get(id);
    if (!call || text === '' || tools !== 'full') return steps;
    return [...steps, add(call, { type: 'call-input', id, text })];
  }

  #announce(id: string, name: string): readonly ShownStep[] {
    if (this.#shown.tools === 'hidden' || name === finish) return [];
    const call: ShownCall = { id, name, isReady: false, steps: [] };
    this.#calls.set(id, call);
    this.#visible.add(id);
    this.#order.push(id);
    return [add(call, { type: 'call', id, name })];
  }

  #respond(event: LlmResponseEvent): readonly ShownStep[] {
    const { reasoning = '', toolCalls = [] } = event;
    const steps: ShownStep[] = [];
    const shown = toolCalls.filter(({ call }) => this.#shown.tools !== 'hidden' && call.function.name !== finish);
    const ids = shown.map(({ callId }) => this.#outside(callId));
    if (this.#shown.reasoning && this.#reasoning === undefined) steps.push(...this.#reason(reasoning));
    steps.push(...this.#endReasoning(), ...this.#release(), ...this.#endText());
    const wrongReasoning = this.#shown.reasoning && (this.#reasoning?.text ?? '') !== reasoning;
    const calls = [...this.#calls.values()].filter(
      ({ id, name }) => !shown.some(({ call }, index) => ids[index] === id && call.function.name === name),
    );
    const before = this.#order;
    const texts = wrongReasoning && this.#reasoning ? [this.#reasoning.id] : [];
    if (wrongReasoning) {
      this.#reasoning = undefined;
      if (reasoning !== '') {
        this.#reason(reasoning);
        this.#endReasoning();
      }
    }
    for (const { id } of calls) this.#calls.delete(id);
    const first = [this.#reasoning?.of, this.#text?.of].filter((part) => part !== undefined);
    this.#order = [...first, ...ids.filter((id) => this.#calls.has(id))];
    const isChanged = texts.length > 0 || calls.length > 0 || wrongReasoning || !isSame(before, this.#order);
    if (isChanged) {
      const standing = this.#standing();
      const fresh = wrongReasoning && this.#reasoning ? said('reasoning', this.#reasoning) : [];
      steps.push({ type: 'void', texts, calls: calls.map(({ id }) => id), standing, fresh });
    }
    for (const [index, { call }] of shown.entries()) {
      const id = ids[index] ?? '';
      const { name, arguments: text } = call.function;
      steps.push(...(this.#calls.has(id) ? [] : this.#announce(id, name)), ...this.#ready(id, text));
    }
    return steps;
  }

  #ready(id: string, text: string): readonly ShownStep[] {
    const call = this.#calls.get(id);
    if (!call || call.isReady) return [];
    call.isReady = true;
    // What was streamed of the arguments is in `input` now.
    call.steps.splice(0, call.steps.length, ...call.steps.filter(({ type }) => type === 'call'));
    const input = this.#shown.tools === 'full' ? { input: parsedArguments(text) } : {};
    return [add(call, { type: 'call-ready', id, name: call.name, ...input })];
  }

  /** Whether the reader has the call, as it answered a question of it. */
  #wasAnswered(callId: string): boolean {
    return [...this.#shown.answered].some((question) => isOfCall(question, callId));
  }

  #progress(event: Extract<AgentEvent, { kind: 'internal:tool-progress' }>): readonly ShownStep[] {
    if (this.#shown.tools !== 'full' || event.toolName === finish) return [];
    return [{ type: 'call-update', id: this.#outside(event.callId), name: event.toolName, update: event.update }];
  }

  #complete(event: ToolCompleteEvent): readonly ShownStep[] {
    const { callId, toolName, success, content, error } = event;
    const id = this.#outside(callId);
    const { tools, from } = this.#shown;
    if (toolName === finish) return [];
    // A reader that begins in the middle has the calls before from an earlier stream.
    const isVisible =
      this.#visible.has(id) || (from !== undefined && (tools !== 'hidden' || this.#wasAnswered(callId)));
    if (!isVisible) return [];
    const name = tools === 'hidden' ? unnamed : toolName;
    const output = tools === 'full' && success ? { output: content } : {};
    const step: ShownStep = {
      type: 'call-end',
      id,
      name,
      ...output,
      ...(success ? {} : { code: error?.code ?? 'TOOL_FAILED' }),
    };
    const call = this.#calls.get(id);
    return [call ? add(call, step) : step];
  }

  #subAgent({ path, event }: SubAgentEvent): readonly ShownStep[] {
    const { tools } = this.#shown;
    const step = path.at(-1);
    const [first] = path;
    if (!step || !first || tools === 'hidden') return [];
    const parent = path.at(-2)?.taskId;
    const callId = this.#outside(first.callId);
    const { taskId: id, agentId } = step;
    const base = { type: 'agent' as const, id, agentId, callId, ...(parent === undefined ? {} : { parent }) };
    if (event.kind === 'task') return [{ ...base, state: 'working' }];
    if (event.kind === 'status-update' && event.final) return [{ ...base, state: event.status.state }];
    if (tools !== 'full' || event.kind !== 'artifact-update' || !answer.test(event.artifact.artifactId)) return [];
    const text = partsText(event.artifact.parts);
    return text === '' ? [] : [{ ...base, text }];
  }

  #status(event: StatusUpdateEvent): readonly ShownStep[] {
    const { status, final, reason, error, usage, questions = [], cursor, taskId, contextId, unread } = event;
    const { state } = status;
    const asked = questions.flatMap((question) => this.#ask(question));
    if (!final) return asked;
    const end: ShownEnd = {
      type: 'end',
      taskId,
      contextId,
      state,
      questions: questions.map((question) => shownQuestion(question, taskId, this.#shown.tools)),
      ...(state === 'completed' && reason !== undefined ? { reason } : {}),
      ...(error ? { code: error.code } : {}),
      ...(usage ? { usage } : {}),
      ...(cursor === undefined ? {} : { cursor }),
      ...(unread && { unread: unread.length }),
    };
    return [...asked, ...this.#closed(), ...this.#ended(end)];
  }

  #ended(end: ShownEnd): readonly ShownStep[] {
    this.#isOver = true;
    return [end];
  }

  /** Nothing for a question that was asked before. */
  #ask(question: Question): readonly ShownStep[] {
    if (this.#asked.has(question.id) || this.#shown.answered.has(question.id)) return [];
    this.#asked.add(question.id);
    const id = this.#outside(question.callId);
    const steps: ShownStep[] = [];
    if (this.#shown.tools === 'hidden' && !this.#visible.has(id) && !this.#wasAnswered(question.callId)) {
      const call: ShownCall = { id, name: unnamed, isReady: true, steps: [] };
      this.#calls.set(id, call);
      this.#visible.add(id);
      this.#order.push(id);
      steps.push(add(call, { type: 'call', id, name: unnamed }), add(call, { type: 'call-ready', id, name: unnamed }));
    }
    const taskId = this.#ids?.taskId ?? '';
    const step: ShownStep = { type: 'question', question: shownQuestion(question, taskId, this.#shown.tools) };
    const call = this.#calls.get(id);
    return [...steps, call ? add(call, step) : step];
  }
}
