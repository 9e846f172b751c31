import type { JSONSchema, ToolContext } from '../../core/contracts/index.ts';
import { jsonSchemaChecker } from '../../tools/schema-checks.ts';
import { QuestionRounds } from '../question-rounds.ts';
import type { ServerLink } from '../server-link.ts';
import { exposedName, type ServerTool } from '../server-tool.ts';
import { keptSignIn, SignInQuestions } from './sign-in-questions.ts';

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
