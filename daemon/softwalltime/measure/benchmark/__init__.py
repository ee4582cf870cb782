"""Compare predictors on public logs: each predicts in a process of its own, and cannot know a label early."""
