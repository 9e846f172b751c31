import { AgentLoopError, type JSONSchema, type ToolContext } from '../../core/contracts/index.ts';
import { jsonSchemaChecker } from '../../tools/schema-checks.ts';
import { QuestionRounds } from '../question-rounds.ts';
import type { ServerLink } from '../server-link.ts';
import { exposedName, type ServerTool } from '../server-tool.ts';
import { SignInNeeded } from './stored-sign-in.ts';

/** What is journaled beside a question of a call in which the user had to sign in. */
interface KeptSignIn {
  /** How often the user was asked to sign in, with this question. */
  readonly signIns: number;
  /** How many questions of the call were answered before it. */
  readonly before: number;
  /** Whether the question itself is to sign in. */
  readonly open: boolean;
  /** The round of questions that is sent once the user has signed in. */
  readonly round?: unknown;
}

interface SignInQuestionsOptions {
  readonly link: ServerLink;
  /** Counts the questions of the call. */
  readonly rounds: QuestionRounds;
}

/** A server may want a sign-in, more rights, and once more after an answer that did not fit. */
const maxSignIns = 3;

/** The questions of one call that ask the user to sign in. They suspend the turn; any process with the same store can take the answer. */
export class SignInQuestions {
  readonly #options: SignInQuestionsOptions;
  #count = 0;
  #problem = '';

  constructor(options: SignInQuestionsOptions) {
    this.#options = options;
  }

  /** Continues after a question of an attempt before. Throws where it is open, as `ask` does. */
  async resume({ signIns, before, open }: KeptSignIn): Promise<void> {
    const { rounds } = this.#options;
    rounds.skipTo(before);
    this.#count = signIns;
    if (open) await this.#take(rounds.ask({ prompt: 'asked before' }));
  }

  /** Runs what needs the server, and asks the user to sign in as often as the server wants it. Rejects as `run` does, and throws as `ask` does. */
  async during<T>(run: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await run();
      } catch (thrown) {
        if (!(thrown instanceof SignInNeeded)) throw thrown;
        await this.#ask(thrown);
      }
    }
  }

  /** What another question of the call has to keep, so that an attempt after it counts the answers right. */
  get kept(): KeptSignIn | undefined {
    if (this.#count === 0) return undefined;
    return { signIns: this.#count, before: this.#options.rounds.asked, open: false };
  }

  async #ask({ signIn }: SignInNeeded): Promise<void> {
    const { link, rounds } = this.#options;
    if (this.#count >= maxSignIns) throw this.#failed(this.#problem || 'the server wants more rights after each');
    await signIn.begin();
    const again = this.#problem === '' ? '' : ` The last sign-in failed: ${this.#problem}.`;
    const kept: KeptSignIn = { signIns: this.#count + 1, before: rounds.asked, open: true, round: rounds.current };
    const answer = rounds.ask({
      kind: 'auth',
      prompt: `Sign in for the MCP server "${link.name}": open the address, and answer with the one that it leads back to.${again}`,
      data: { server: link.name, mode: 'url', url: signIn.authorizationUrl ?? '' },
      private: kept,
    });
    this.#count++;
    await this.#take(answer);
  }

  /** Without an address the sign-in was finished elsewhere. */
  async #take(answer: unknown): Promise<void> {
    if (answer === false || isDeclined(answer)) throw this.#failed('the user declined');
    if (typeof answer === 'string') this.#problem = (await this.#options.link.finishSignIn(answer)) ?? '';
  }

  #failed(why: string): AgentLoopError {
    return new AgentLoopError(
      'TOOL_FAILED',
      `nobody is signed in to the MCP server "${this.#options.link.name}": ${why}`,
    );
  }
}

function isDeclined(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) return false;
  const action: unknown = Reflect.get(answer, 'action');
  return action === 'decline' || action === 'cancel';
}

/** What `context.kept` holds of a call with a sign-in; undefined where it is something else. */
export function keptSignIn(kept: unknown): KeptSignIn | undefined {
  return isKept(kept) ? kept : undefined;
}

function isKept(kept: unknown): kept is KeptSignIn {
  return typeof kept === 'object' && kept !== null && 'signIns' in kept && 'before' in kept && 'open' in kept;
}

/** Signs the user in where that is not done by a call of another tool: a turn without the server's tools has nothing else to call. */
export function signInTool(link: ServerLink, prefix: string): ServerTool {
  const name = exposedName(prefix, 'oauth_sign_in');
  const parameters: JSONSchema = { type: 'object', properties: {} };
  const does = `Signs the user in to "${link.name}". Call it where the tools of ${link.name} are missing and needed.`;
  return {
    definition: {
      type: 'function',
      function: { name, description: does, parameters },
      checkArguments: jsonSchemaChecker(parameters, name),
      idempotent: true,
      onInDoubt: 'retry',
      timeoutMs: 0,
    },
    async execute(context) {
      const signIns = await signInQuestions(link, context);
      await signIns.during(() => link.connected());
      const content = `The user is signed in to ${link.name}. Tools that are not there yet are there from the next message on.`;
      return { toolCallId: context.call.id, content, success: true };
    },
  };
}

/** Of one attempt, with what attempts before have asked. Throws where a question is open, as `ask` does. */
export async function signInQuestions(link: ServerLink, context: ToolContext): Promise<SignInQuestions> {
  const { name, server } = link;
  const rounds = new QuestionRounds({ name, server, sdk: await link.sdk(), context });
  const signIns = new SignInQuestions({ link, rounds });
  const kept = keptSignIn(context.kept);
  if (kept) await signIns.resume(kept);
  return signIns;
}
