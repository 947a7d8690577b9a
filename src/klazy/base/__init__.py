"""What knows nothing of the subject: checks of input, configurations, HTML, files, parallel calls."""
