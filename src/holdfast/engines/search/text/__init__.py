"""What is read from texts and questions: words, people, times, passages."""
