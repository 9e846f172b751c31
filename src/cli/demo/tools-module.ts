import { AgentLoopError } from '../../core/contracts/index.ts';
import { demoTools, ledgerVariable } from './demo-tools.ts';

/** What `--tools` loads in the process that the demo kills. */
export default demoTools(process.cwd(), ledgerOf(process.env[ledgerVariable]));

function ledgerOf(file: string | undefined): string {
  if (file !== undefined) return file;
  throw new AgentLoopError('INVALID_CONFIG', `${ledgerVariable} has to name the file of the ledger`);
}
