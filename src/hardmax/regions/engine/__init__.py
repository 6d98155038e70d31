"""What every engine shares: the question, the program, the stack machine, tasks, workers, checkpoints."""
