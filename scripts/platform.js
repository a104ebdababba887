/** The computer that figures come from, as the pages in bench/results name it. */
import { availableParallelism } from "node:os";

export const PLATFORM = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} logical processors`;
