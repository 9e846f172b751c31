import {
  type AgentLoopConfig,
  AgentLoopError,
  type AgentUsage,
  type Defined,
  type Message,
  systemClock,
  usageOf,
} from '../core/contracts/index.ts';
import { assertContextId } from '../stores/messages/stored-messages.ts';
import { AgentLoop } from '../tasks/agent-loop.ts';
import type { SubmittedTask } from '../tasks/create-task.ts';
import type { AgentNotice } from './agent-events.ts';
import { type AgentSubmitOptions, type Dependencies, predecessorOf } from './agent-options.ts';
import {
  type BetweenTurns,
  type ConversationOptions,
  conversation,
  type Opening,
  withoutMemory,
} from './conversation.ts';
import type { Lifecycle, UsageTally } from './lifecycle.ts';
import type { RunningTurns } from './open-turns.ts';
import type { ResolvedAgent } from './resolve-agent.ts';

/** The parts of an agent that its turns report to. */
interface TurnConfigParts {
  readonly resolved: ResolvedAgent;
  readonly internals: AgentInternals;
  readonly running: RunningTurns;
  readonly life: Lifecycle;
  readonly usage: UsageTally;
  /** Absent if contexts are not compacted. */
  readonly between: BetweenTurns | undefined;
}

/** The configurations of an agent's turns: its own, as a sub-agent, and with other dependencies. */
export class TurnConfigs {
  readonly config: AgentLoopConfig;
  readonly admission: ReturnType<typeof conversation>['admission'];
  readonly resumption: ReturnType<typeof conversation>['resumption'];
  /** For a resume that does not wait for other turns. */
  readonly inOrder: ReturnType<typeof conversation>['inOrder'];
  readonly #submission: ReturnType<typeof conversation>['submission'];
  readonly #resolved: ResolvedAgent;
  readonly #internals: AgentInternals;
  readonly #running: RunningTurns;
  readonly #life: Lifecycle;
  readonly #usage: UsageTally;
  readonly #between: BetweenTurns | undefined;
  readonly #loop: AgentLoop;

  constructor({ resolved, internals, running, life, usage, between }: TurnConfigParts) {
    this.#resolved = resolved;
    this.#internals = internals;
    this.#running = running;
    this.#life = life;
    this.#usage = usage;
    this.#between = between;
    const { members } = internals;
    const { extension, admission, resumption, inOrder, submission } = this.#remembering();
    this.admission = admission;
    this.resumption = resumption;
    this.inOrder = inOrder;
    this.#submission = submission;
    this.config = {
      ...resolved.loop,
      toolProviders: resolved.toolsWith({}),
      extensions: [...(resolved.loop.extensions ?? []), extension],
      ...(members && { agents: members.agentsWith(undefined), maxHandOffs: members.maxHandOffs }),
    };
    this.#loop = new AgentLoop(this.config);
  }

  /** A child turn has a fresh context, which is stored in its journal only. */
  get ofChild(): AgentLoopConfig {
    const { loop } = this.#resolved;
    const extensions = [
      ...(loop.extensions ?? []),
      withoutMemory({ ...this.#notices, choose: this.#internals.members?.choose }),
    ];
    return { ...this.config, extensions };
  }

  get #notices(): Pick<ConversationOptions, 'onSent' | 'onEnd'> {
    const agentId = this.#resolved.id;
    return {
      onSent: ({ taskId, contextId, state }, messages, chosen = state.turn.settings.agentId ?? agentId) =>
        this.#life.tell({ kind: 'message:sent', agentId: chosen, taskId, contextId, messages }),
      onEnd: ({ taskId, state }) => {
        const running = this.#running.get(taskId);
        if (running) running.endsHere = true;
        const { members } = this.#internals;
        this.#usage.add(state, members ? state.usage : usageOf(state.ownUsage));
        members?.count(state.ownUsage);
      },
    };
  }

  #remembering(): ReturnType<typeof conversation> {
    const { messageStore, busy, queueTimeoutMs, loop } = this.#resolved;
    const { clock = systemClock, storeDeadlineMs = 30_000, leaseMs = 30_000, taskStateStore: journal, logger } = loop;
    return conversation({
      messageStore,
      journal,
      busy,
      queueTimeoutMs,
      running: this.#running,
      deadline: { clock, ms: storeDeadlineMs },
      leaseMs,
      logger,
      between: this.#between,
      endsOnly: this.#internals.endsOnly === true,
      choose: this.#internals.members?.choose,
      ...this.#notices,
    });
  }

  /** With a turn's overrides of dependencies. Errors: `INVALID_INPUT`. */
  with(dependencies: Dependencies | undefined): AgentLoopConfig {
    if (dependencies === undefined) return this.config;
    if (typeof dependencies !== 'object' || dependencies === null)
      throw new AgentLoopError(
        'INVALID_INPUT',
        'dependencies of a turn are an object, by name; leave them out for the agent’s.',
      );
    const { members } = this.#internals;
    if (members) return { ...this.config, agents: members.agentsWith(dependencies) };
    if (this.#resolved.toolsDepend) return { ...this.config, toolProviders: this.#resolved.toolsWith(dependencies) };
    const message = `Agent "${this.#resolved.id}" has no dependencies to override; make its tools a function of them: tools: (dependencies) => […].`;
    throw new AgentLoopError('INVALID_INPUT', message);
  }

  /** Creates a turn without running it, and registers it in its context. */
  submit(
    messages: readonly Message[],
    { after, ...options }: AgentSubmitOptions & { readonly taskId: string },
    defaultContextId: string,
  ): Promise<SubmittedTask> {
    const { taskId, contextId = defaultContextId } = options;
    const follows = predecessorOf(after);
    assertContextId(contextId);
    const metadata = { ...this.#resolved.settings.metadata, ...options.metadata };
    const start = { ...options, metadata };
    return this.#submission({ contextId, taskId }, () =>
      this.#loop.submitAdmitted(messages, start, { contextId, follows }),
    );
  }

  loopWith(dependencies: Dependencies | undefined): AgentLoop {
    return dependencies === undefined ? this.#loop : new AgentLoop(this.with(dependencies));
  }
}

/** Properties that agents of this package share, hidden from users. */
export interface AgentInternals {
  /** One table for all agents of a conversation, so that it has one turn at a time. */
  readonly running?: RunningTurns;
  /** The context that was made up for the agent that it is a variant of. */
  readonly contextId?: string;
  /** The context stores questions and answers only, without the calls in between. */
  readonly endsOnly?: boolean;
  /** Counts the usage of its turns: the tally of the agent that it is a variant of. */
  readonly usage?: UsageTally;
  /** Receives the events of its turns: the agent that it is a variant of. */
  readonly relay?: (notice: AgentNotice) => void;
  /** Set if the turns are those of a team. */
  readonly members?: TeamMembers;
}

/** The agents of a team, for its turns. */
export interface TeamMembers extends Defined<Pick<AgentLoopConfig, 'maxHandOffs'>> {
  /** The setup of each, with a turn's overrides. Errors: `INVALID_INPUT` if none of them has dependencies. */
  readonly agentsWith: (dependencies: Dependencies | undefined) => NonNullable<AgentLoopConfig['agents']>;
  /** Chooses the first agent to answer. */
  readonly choose: Opening;
  /** Counts the model calls of each of them in a turn of the team. */
  readonly count: (used: readonly AgentUsage[]) => void;
  /** Its context management compacts contexts between turns. */
  readonly compactedBy: ResolvedAgent;
}
